//! A ledger as files that other tools and browsers read.
//!
//! ```text
//! &Ledger -> sample: whole numbers per stack and thread -> one file per format
//!            notes:  coverage and losses in words       ->
//! ```
//!
//! No format says how sure an estimate is, except our own JSON; the others carry the unbiased
//! estimate, rounded such that all stacks together are the rounded total (see `apportion`).
//! Names come from a process that may be hostile: each format makes them harmless in its own way.
//!
//! ```
//! use heapattach_export::{Format, write};
//! use heapattach_ledger::{Metric, sample};
//!
//! let mut file = Vec::new();
//! write(&sample::ledger(), Format::Collapsed, Metric::Live, &mut file)?;
//! let text = String::from_utf8(file).expect("names are text");
//! let line = text.lines().find(|line| line.contains("make_node")).expect("it holds most");
//! assert!(line.starts_with("main") && line.ends_with(" 64000"), "{line}");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Knows no process, no clock and no command line; of files only that they can be written to.

mod apportion;
mod callgraph;
mod collapsed;
pub mod columns;
#[cfg(all(test, target_arch = "x86_64"))]
mod cost_tests;
mod dhat;
mod firefox;
mod flamegraph;
mod format;
mod harmless;
pub mod heap;
mod heapprofile;
mod heaptrack;
pub mod html;
mod joined;
mod json;
#[cfg(test)]
mod large_ledger;
#[cfg(test)]
mod mapped_reader_tests;
mod massif;
mod notes;
pub mod otlp;
mod packing;
mod parquet;
mod path_profile;
mod pprof;
#[cfg(test)]
mod reader_cases;
#[cfg(test)]
mod reader_tests;
mod retained;
mod sample;
mod tree;
#[cfg(test)]
mod web_reader_tests;

pub use format::{Format, write, write_difference, write_named};
pub use heapprofile::write_addresses;
pub use pprof::{
    Names, Place, RowProfile, StackRow, TYPES, protobuf, row_notes, rows, write_rows, write_slot,
};
pub use retained::pprof as write_retained;
