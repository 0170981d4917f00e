//! What `allocator --apply` does to a process, beside programs that check their blocks.

mod decay;
mod profiler;
mod purge;
mod repeated;
pub mod trim;
