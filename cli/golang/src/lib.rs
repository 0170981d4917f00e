//! Go programs, from outside.

pub mod dwarf;
pub mod figures;
pub mod find;
pub mod graph;
pub mod profile;
pub mod tables;
