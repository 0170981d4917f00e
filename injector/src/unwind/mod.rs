//! Tables to unwind the target's stacks by: made here, from the unwind information that lies in its
//! memory, and published in the region that it shares with us. The format is
//! [`heapattach_abi::unwind`].
//!
//! ```text
//! maps --> image: what is loaded where --> compile: rows of a module --> tables: the directory
//! ```

mod compile;
mod image;
mod tables;

pub use compile::{Compiled, compile, compile_bytes, information};
pub use image::{Image, images};
pub use tables::{Tables, Totals};
