//! What blocks are, as far as they say it themselves: C++ objects by their table of virtual functions, whose
//! class is named in the memory of their module, stripped or not; Python objects by their type;
//! PHP objects by their class.
//!
//! A class is never guessed: a table counts only if what lies before it is an offset of 0 and the address of a
//! type with a name that a compiler writes. A block that was freed has lost its first word.

mod classes;
pub mod declared;
mod language;
mod php;
pub mod places;
mod python;
pub mod shapes;
mod tally;

pub use classes::{ClassId, Classes};
pub use language::{Certainty, Language};
pub use tally::{ClassRow, ClassTally};
