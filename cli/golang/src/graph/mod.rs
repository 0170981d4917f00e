//! The object graph of a Go program at a kept moment.
//!
//! ```text
//! spans -> objects -> pointers by the runtime's masks -> edges -> mark from the roots
//! ```
//!
//! It reads a moment and nothing else, and knows no addresses and no offsets: they come from the tables and
//! from what finds the runtime's variables. Memory and time are bounded by the memory that the target
//! has; bytes of it may be anything.

mod class;
mod cycles;
pub mod excess;
pub mod goroutine;
pub mod heap;
pub mod layout;
pub mod leaks;
pub mod mark;
pub mod objects;
pub mod paths;
pub mod pointers;
mod quick_hash;
pub mod references;
pub mod roots;
pub mod sampled;
pub mod site;
pub mod span;
pub mod types;
pub mod typing;
pub mod waiting;
pub mod walker;

#[cfg(test)]
mod synthetic_tests;
