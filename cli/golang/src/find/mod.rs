//! What is found in a Go program, stripped or not: its release, its functions by name, and where the variables
//! of its runtime are.
//!
//! ```text
//! build information -> release -> table
//! pclntab -> functions by name -> their code -> what it refers to -> votes -> variables
//! ```
//!
//! It reads memory that may change or be hostile, through a moment; no file is opened. What is not certain is
//! not answered.

mod build_info;
mod frames;
mod functions;
mod pc_table;
mod votes;

pub use build_info::Release;
pub use frames::{Frame, Frames};
pub use functions::Functions;
pub use votes::Found;
pub(crate) use {
    functions::bias,
    votes::{certain, vote},
};

/// Why the runtime is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no table.
    #[error("{0} is not known to this heapattach; known: {1}")]
    Release(String, String),
    /// There are no functions.
    #[error("the table of functions (pclntab) of {0} was not found")]
    Functions(String),
    /// A variable was not found.
    #[error("{0} of the runtime was not found with certainty: {1} of {2} references agree")]
    Variable(&'static str, usize, usize),
    /// The table lacks something.
    #[error(transparent)]
    Layout(#[from] crate::graph::layout::Missing),
}

/// Tells where a variable is that debug data names.
pub type Named<'n> = &'n dyn Fn(&str) -> Option<u64>;
