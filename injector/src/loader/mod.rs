//! The other way to bring the payload in: as an ordinary shared object, loaded by the target's own
//! loader, for those who want debuggers and the loader itself to know it. Hooks, ring, control page
//! and journal are the same; only the code of the hooks lies elsewhere.
//!
//! A `dlopen` called by a thread that was stopped anywhere hangs or breaks the target: it may
//! hold the allocator's locks, or the loader's. So none is made to. A thread that comes to the
//! entry of an allocation function calls `dlopen` there by itself (`errand`), if that is a place
//! where a program may (`safety`).
//!
//! ```text
//! install: a home, with gates in place of hooks -> object: a file that dlopen can open
//!     -> errand: functions led to the gates, a thread comes, dlopen, functions given back
//!         -> attach: as ever, with the hooks of the object
//! undo: functions given back -> errand: dlclose -> home unmapped
//! ```

mod errand;
mod functions;
mod gate_image;
mod load;
mod safety;
mod thread_start;
mod walk;

pub(crate) use errand::Errands;
pub use errand::{ErrandError, Outcome};
pub(crate) use functions::Functions;
pub use gate_image::gate_image;
pub use load::LoadError;
pub(crate) use load::{CURE, check, close, find_in, found, load};
pub(crate) use thread_start::check as check_thread_start;
