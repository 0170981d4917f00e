//! What `allocator --apply` does to a process, beside programs that check their blocks.

mod decay;
mod purge;
pub mod trim;
