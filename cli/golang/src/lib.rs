//! Go programs, from outside.

pub mod graph;
