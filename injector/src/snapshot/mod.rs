//! The memory of a stopped target, for the question what leads where: which ranges mean what, the
//! pointers that lie in no memory, and the bytes.
//!
//! ```text
//! stop -> scene (maps, threads, registers, kernel) -> areas and pointers
//!      -> image: read during the stop, copied during it or before, or a clone that stays behind
//! ```
//!
//! Nothing is judged here: what is a block and what holds it is not known.

mod area;
mod arena;
mod arenas;
pub mod client_requests;
mod clone;
mod compared;
pub mod constant;
mod core_scene;
mod early_copy;
mod exiting;
mod finished_copy;
mod image;
mod kernel;
mod robust;
pub mod sanitizer;
mod scene;
mod standing;
mod static_tls;
mod thread;
mod unseen_writes;

pub use area::{Area, Pointer};
pub(crate) use clone::{Clone, CloneError};
pub use early_copy::{EarlyCopy, EarlyError};
pub use exiting::Exits;
pub use finished_copy::Finished;
pub use image::{Image, Kept, Method, SnapshotError};
pub use scene::Scene;
pub use standing::{Rules, Standing};
pub use static_tls::StaticTls;
pub use unseen_writes::unseen_writes;
