//! What a module's debug data declares: types with the pointers in them, and variables of these types.
//!
//! ```text
//! entries -> index (names, variables) -> read: types from variables and wanted names down -> Declared
//! ```
//!
//! Only what variables and wanted names lead to is read. The data is the target's, hence hostile: entries, types
//! and time are bounded, and what is not understood is [`Kind::Unknown`], which names nothing.

mod index;
mod read;
mod rust;
mod types;

pub use read::{Limits, read};
pub use types::{Declared, Kind, Language, Member, Type, TypeId, Variable, Vector};
