//! heapattach beside its peers, on the same work, in one run.
//!
//! ```text
//!   options ─> install ─> kit (where each tool is) ─┐
//!                                                   ├─> parts ─> book ─> table, charts, goals
//!   work (programs that do the same again and again)┘                    └─> comparison with a run
//! ```
//!
//! A *tool* is put on a program before it starts (preloaded, or a program that runs it) or afterwards
//! (attached). A *work* is a program that does the same so often as it is told. A *part* measures: it
//! writes samples into the [`Book`], or why there are none. Everything that is told (medians, goals,
//! agreement of two runs) is computed from the samples, so that who doubts it can do it again.
//!
//! A failure becomes a row that says so, and the run goes on.

mod attempt;
mod book;
mod chart;
mod clock;
mod comparison;
mod dress;
mod figure;
mod goals;
mod install;
mod kit;
mod machine;
mod options;
mod outcome;
mod part;
mod peer;
mod product;
mod session;
mod slopes;
mod table;
mod tool;
mod work;

pub use book::{Book, Failure, Row, Sample};
pub use comparison::Comparison;
pub use goals::{Goal, Verdict};
pub use options::Options;
pub use outcome::Outcome;
pub use part::measure;
pub use product::settle;
