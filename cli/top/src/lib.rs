//! What `heapattach top` shows, and what its keys do: a live heap profile on a terminal, as text and as JSON.
//!
//! ```text
//! ledger, again and again -> watched: rows of sites, their history
//! input (a key, the mouse) -> model -> wish: what only the command can do
//!                               \-> draw: a buffer of cells -> a terminal, or text
//! ```
//!
//! ```
//! use std::sync::Arc;
//! use heapattach_top::{Model, Snapshot, Subject, text};
//!
//! let mut model = Model::new(vec![Subject { name: "list".into(), pid: 4242, ..Subject::default() }]);
//! let ledger = Arc::new(heapattach_ledger::sample::ledger());
//! model.take(0, Snapshot { ledger, ..Snapshot::default() });
//! let told = text(&mut model, 80, 10, false);
//! assert!(told.contains("make_node (list.c:12)") && told.lines().all(|line| line.chars().count() <= 80));
//! ```
//!
//! Knows no process, no file, no clock and no terminal: ledgers, text of sources and keys come from outside,
//! and what is drawn is a buffer.

mod compact;
mod detail;
mod document;
mod draw;
mod help;
mod history;
mod inked;
mod input;
mod model;
mod once;
mod processes;
mod rows;
mod snapshot;
mod source;
mod tab;
mod watched;

pub use document::{processes_document, top_document};
pub use draw::draw;
pub use input::{Input, Key};
pub use model::{Format, Model, Wish};
pub use once::text;
pub use processes::{Listed, Processes};
pub use snapshot::{Snapshot, State, Subject};
pub use tab::Tab;
