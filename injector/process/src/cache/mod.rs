//! Files that make a later session cheaper, in a folder of the user's own: what was made of a build
//! once need not be made again.
//!
//! ```text
//! $XDG_CACHE_HOME/heapattach or ~/.cache/heapattach     0700, ours
//!   KEY                                                 0600, ours, written beside and renamed
//! ```
//!
//! A key is a hash of what the thing was made from; where to read that takes as long as to make the thing
//! anew, it is the identity of a file whose times are the kernel's own ([`identity()`]).
//!
//! Whatever is not as it should be (a folder that others may write to or that belongs to another
//! user, a link, a file that is too large) means that there is no cache: a session never fails by it
//! and says nothing of it. What is read here is not believed; the caller checks each part.

mod folder;
mod identity;
mod key;

pub use folder::Cache;
pub use identity::identity;
pub use key::Key;
pub use key::sum;
