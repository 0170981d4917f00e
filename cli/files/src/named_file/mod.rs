//! Files that a command line names, found without trusting the folders on the way: in a folder that
//! others may write to, a link leads to where they want us to read or write.
//!
//! Nothing is opened here except for its path (`O_PATH`), so that no name pipe is waited for and no
//! device does anything. What may be done with what was found is decided by [`crate::output_file`]
//! (writing) and [`crate::input`] (reading).

mod kind;
mod own;
mod walk;

pub use kind::{is_harmless_device, is_shared, refusal};
pub use own::Own;
pub use walk::{Found, Place, Use, find};
