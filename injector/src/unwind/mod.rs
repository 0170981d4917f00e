//! Tables to unwind the target's stacks by: made here, from the unwind information that lies in its
//! memory and, where that says nothing, in its modules' files; and published in the region that it shares with us. The format is
//! [`heapattach_abi::unwind`].
//!
//! ```text
//! maps --> image: what is loaded where --> compile: rows of a module --> tables: the directory
//!                                           |
//!                debug_frame: in its file --+
//! ```

mod budget;
mod compile;
mod compiled;
mod debug_frame;

mod origin;
mod stored;
mod tables;

pub use compile::{compile, compile_bytes, compile_debug_frame, information};
pub use compiled::Compiled;
pub use debug_frame::section;

pub use tables::{Tables, Totals};
