//! Go programs, from outside: what their runtime counts and samples itself, and every object of their heap.
//!
//! ```text
//! moment -> find: release, functions, variables -> figures: what the runtime counts
//!           tables: fields of that release     ->  profile: what it samples
//!                                               -> graph: objects, what holds them, types, goroutines;
//!                                                         what a place of the code allocates (site)
//! ```
//!
//! ```
//! use heapattach_census::{Moment, NoMemory};
//! use heapattach_golang::{Go, tables::Table};
//!
//! // What differs from release to release is a table, made from a program of that release.
//! let table = Table::of(24).expect("go1.24");
//! let status = table.field("runtime.g.atomicstatus").expect("the state of a goroutine");
//! assert_eq!(status.size, 4);
//! // What is not there, or not certain, is not answered.
//! let moment = Moment::new(&NoMemory, Vec::new(), Vec::new());
//! assert!(Go::find(&moment).is_none() && Table::of(7).is_none());
//! ```
//!
//! Knows no session, no report and no command line, and writes nothing: it reads memory through a moment, which
//! may change meanwhile or be hostile. Files are only opened for debug data, by the caller.

mod arch;
pub mod dwarf;
pub mod figures;
pub mod find;
pub mod graph;
mod make_table;
pub mod profile;
mod program;
pub mod tables;

pub use make_table::make_table;
pub use program::Go;
