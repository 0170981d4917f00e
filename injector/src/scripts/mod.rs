//! The interpreter of scripts (CPython, PHP, Ruby, Perl) in a target: recognised from outside, so that the payload
//! can walk its frames and we can name them.
//!
//! ```text
//! marks: symbols of a module -> interpreter: version, layout, php, ruby or perl -> orders for the payload
//!                                   |
//! words of a stack, copies of code -> frames: code, text, line_table, php, ruby, perl -> function, file, line
//!                        merge: native frames + frames of scripts -> one stack
//! ```
//!
//! A frame of a script has an address of its own, beyond those of programs, so that whatever handles
//! stacks of addresses handles these too. Everything read from the target is hostile.

mod code;
mod cold_part;
mod frames;
mod interpreter;
mod layout;
mod line_table;
mod merge;
mod orders;
mod perl;
mod php;
mod ruby;
mod ruby_lines;
mod text;

pub use frames::Frames;
pub use interpreter::{Interpreter, Python, Unreadable};
pub use merge::merge;
pub use orders::Wish;

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::interpreter::tests::some;
}
