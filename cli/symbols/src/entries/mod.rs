//! The entries of debug data, for all that looks for variables and types: names, types, references between
//! them. Functions and lines are read elsewhere, and lazily; here the whole of a file is at hand, within a bound.

mod debug;
mod sections;

pub use crate::files::elf::Allowance;
pub use debug::{Debug, Entry, Place, number};
pub use sections::{Bytes, Sections};
