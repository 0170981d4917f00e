//! What a ledger means: what grows, what is only held, what comes and goes, in numbers and in words.
//!
//! ```text
//! ledger (perhaps two) -> subject: sites with weights -> summary: verdict, doubts, sites
//!                      -> growth: the course of each stack, judged -^
//!                      -> current: growth, rates, what is not seen, now
//! counters of an allocator -> advice: what could be set otherwise
//! census, figures of mappings -> reconcile: what all memory is, and what that means
//! ```
//!
//! ```
//! use heapattach_verdict::summary::{Kind, Summary};
//!
//! let ledger = heapattach_ledger::sample::ledger();
//! let summary = Summary::new(&ledger);
//! assert_eq!(summary.verdict.kind, Kind::Grew);
//! assert!(summary.verdict.text.starts_with("Grows by 3.1 KiB/s, all of it by make_node"));
//! assert_eq!(summary.sites[0].place, "make_node (list.c:12)");
//! assert_eq!(summary.sites[0].callers, ["grow_list (list.c:40)", "main (main.c:7)"]);
//! ```
//!
//! Knows no process, no file, no clock, no page that any of this is drawn on, and no command line.

pub mod advice;
pub mod current;
pub mod figure;
pub mod growth;
pub mod keeping;
pub mod moments;
pub mod paths;
pub mod place;
pub mod reconcile;
pub mod site_rows;
pub mod site_sums;
pub mod subject;
pub mod summary;
pub mod weight;
