//! Blocks by the declared types of the pointers that lead to them, where modules have debug data.
//!
//! ```text
//! variables, objects of known classes -> pointers of their types -> blocks -> their pointers -> ...
//! ```
//!
//! A type is told only if all typed pointers to a block agree on it, if the block is as long as the type says,
//! and if what the type says are pointers can be such. `void *` and members of unions name nothing. Where
//! pointers disagree, the block names nothing and leads to nothing, and all is looked at again without it.

mod fit;
mod model;
mod spread;

pub use model::{Array, Model, Slot};
pub use spread::{Form, Spread, spread};
