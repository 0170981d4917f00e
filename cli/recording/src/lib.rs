//! Recordings: sessions on disk, written while they last and read as ledgers. It knows no process that
//! runs, no report and no command line.
//!
//! ```
//! use heapattach_recording::Recording;
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/samples/version1.heapattach");
//! let recording = Recording::open(path.as_ref())?;
//! let ledger = recording.ledger(None);
//! // Each row is what one thread allocated by one stack.
//! for row in &ledger.rows {
//!     let names: Vec<_> = ledger.calls(row.stack).map(|call| &call.function.name).collect();
//!     let held = row.measure(heapattach_ledger::Metric::Live).bytes.value;
//!     println!("{held} bytes by {names:?}");
//! }
//! println!("{} moments", recording.moments().len());
//! # assert!(!ledger.rows.is_empty() && !recording.moments().is_empty());
//! # Ok::<(), heapattach_recording::RecordingError>(())
//! ```
//!
//! ```text
//! events -> format: coded_events -> write: session_writer -> write_queue -> file: title, blocks
//!             (profile)                                                     |
//!          rows, snapshots, names, words             read: Recording -> sheet -> Ledger
//!          profile, stacks, names, words    ->    read: Ended -----------^
//! ```
//!
//! The ledger of a session that has just ended is made of what is in memory (`read::in_memory`), not of
//! its file, by the same code.
//!
//! # The file
//!
//! A line that names the format and its version, then blocks (`format::block`): kind, lengths, checksum,
//! compressed content. Blocks are only ever appended, at least every second, so that any end of
//! this process leaves a file that is whole up to then; a reader takes the longest part that is. Once
//! `--max-size` is reached a new file with a snapshot in the place of what happened until then
//! takes the place of the old one.
//!
//! Numbers of events and sums are packed (`coded_events`, `snapshot`, `rows`), all else is JSON. Where
//! the disk takes nothing for a while, events of that time are left out and the heading says when;
//! no thread waits longer than [`Patience`]. Memory of the target is never part of it, nor are the
//! addresses of its blocks; its command line is, unless it was to be left out.
//!
//! # The promise
//!
//! A heapattach reads the recordings of every earlier one. New fields in JSON do not change the
//! version in the first line: a reader that does not know them passes over them. Any other change does,
//! and a reader that meets a later version than its own says so instead of guessing. Version 2 has
//! the events coded by a model that learns (`predictor`); `version1` reads those of version 1. Version 3 has
//! blocks of events as they are besides (`plain_events`). Version 4 has another word for why a stack ends
//! (`rows`), and addresses that no process has, for code that lay where other code was before. Version 5 tells of
//! pages that are unmapped when they were mapped.

mod error;
mod format;
#[cfg(all(test, target_arch = "x86_64"))]
mod instructions;
pub mod names;
mod read;
#[cfg(any(test, feature = "sample"))]
pub mod sample;
#[cfg(test)]
mod speed;
mod store;
#[cfg(test)]
mod tests;
mod write;

pub use error::RecordingError;
pub use format::heading::Heading;
pub use format::stack_source::StackSource;
pub use read::context::Context;
pub use read::course::Places;
pub use read::growing::Growing;
pub use read::in_memory::Ended;
pub use read::part::Part;
pub use read::replay::Replay;
pub use read::{MOMENTS, Recording};
#[cfg(any(test, feature = "sample"))]
pub use store::create;
pub use store::{Store, create_beside, create_for, create_named, create_prefixed};
pub use write::cut::Cut;
pub use write::session_writer::SessionWriter;
pub use write::write_queue::{Haste, Patience, WriteQueue};
