//! What the debug data of a program says of its variables: it is there unless the program was stripped.

mod locals;
mod structures;
mod variables;

pub use locals::{Local, Locals};
pub use structures::fields;
pub use variables::{Pointer, Typed, Variable, Variables};
