//! What the debug data of a program says of its variables: it is there unless the program was stripped.

mod sections;
mod variables;

pub use variables::{Pointer, Typed, Variable, Variables};
