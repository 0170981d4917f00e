//! What blocks come to: their sizes, and the pages that they lie on. All of it is summed up while blocks
//! stream by; memory is bounded by sizes and arenas, not by blocks.

mod amount;
mod fill;
mod resident;
mod sizes;
mod tally;

pub use amount::{Amount, Kinds};
pub use fill::Fill;
pub use resident::Resident;
pub use sizes::{SizeRow, Sizes};
pub use tally::Tally;
