//! What a ledger means: what grows, what is only held, what comes and goes, in numbers and in words.
//!
//! ```text
//! ledger (perhaps two) -> subject: sites with weights -> summary: verdict, doubts, sites
//!                      -> growth: the course of each stack, judged -^
//! ```
//!
//! ```
//! use heapattach_verdict::summary::{Kind, Summary};
//!
//! let ledger = heapattach_ledger::sample::ledger();
//! let summary = Summary::new(&ledger);
//! assert_eq!(summary.verdict.kind, Kind::Grew);
//! assert!(summary.verdict.text.starts_with("Grew: of 1.2 MiB asked for in 20.0 s"));
//! assert_eq!(summary.sites[0].place, "make_node (list.c:12)");
//! assert_eq!(summary.sites[0].callers, ["grow_list (list.c:40)", "main (main.c:7)"]);
//! ```
//!
//! Knows no process, no file, no clock, no page that any of this is drawn on, and no command line.

pub mod figure;
pub mod growth;
pub mod place;
pub mod subject;
pub mod summary;
pub mod weight;
