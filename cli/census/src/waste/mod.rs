//! What in blocks in use may be waste, by their bytes: zeroes, copies of what another block has, room at the
//! end that nothing was written to.
//!
//! Contents are compared and counted, and never told. Each byte counts once: a block of zeroes is that alone,
//! of blocks with the same contents all but the first are copies, and only of the first the end counts.
//! Only memory that is there counts: pages that were never touched cost nothing. Whether the program needs
//! it is not to be seen from its bytes; nor is what was freed within a block and not cleared.

mod contents;
mod copies;
mod fingerprint;
mod tally;

pub use fingerprint::{Fingerprint, Keys};
pub use tally::{Waste, WasteKind, WasteRow, WasteSum, look};
