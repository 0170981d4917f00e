//! Go programs, from outside.

pub mod dwarf;
pub mod graph;
