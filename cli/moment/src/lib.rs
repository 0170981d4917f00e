//! Moments: what all memory of a process was at one instant, on disk, and what became different from one to
//! the next. It knows no process and no command line.
//!
//! ```
//! use heapattach_moment::{encode, decode};
//! use heapattach_report::CensusReport;
//!
//! let report = CensusReport::new(4711, "/usr/bin/app".to_owned());
//! let file = encode(&report, "0.1.0")?;
//! let again = decode(&file, "monday".as_ref()).expect("what was just written");
//! assert_eq!((again.census.pid, again.version.as_str()), (4711, "0.1.0"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! ```text
//! CensusReport, with all its rows -> file: title, head, packed JSON -> file::read (hostile) -> CensusReport
//!                                                    two and more -> difference: rows by growth
//! ```
//!
//! # The file
//!
//! A line that names the format and its version, `heapattach moment 1`; a head of three numbers of four bytes,
//! little endian: the length of the packed content, that of the content, and its CRC-32; then the content, JSON,
//! packed by deflate. Nothing follows it.
//!
//! The content is `{"version": ..., "census": ...}`: the version of the heapattach that wrote it, and what
//! `heapattach heap --json` prints, with more rows. Contents of memory and addresses of blocks are never
//! part of it: numbers that look like addresses are cut out of sentences. Names are: of variables, classes,
//! mappings, threads, and the command line.
//!
//! # The promise
//!
//! A heapattach reads the moments of every earlier one. New fields in JSON do not change the version in the first
//! line; any other change does, and a reader that meets a later version than its own says so.

mod difference;
mod file;

pub use difference::{Change, DIFFERENCE_SCHEMA, Difference, Row, Section, Side};
pub use file::{
    LIMIT, Moment,
    error::MomentError,
    read::{decode, is_moment, read},
    write::encode,
};
