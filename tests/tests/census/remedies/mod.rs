//! What `allocator --apply` does to a process, beside programs that check their blocks.

mod background;
mod decay;
mod gate;
mod profiler;
mod purge;
mod repeated;
pub mod trim;
