//! Which processes of a machine are watched, when, and at what cost.
//!
//! ```text
//! config (rules) + facts of each process + what is barred -> decide -> watch | wait | refuse, with the reason
//! measured cost + limits -> budget -> detach these, because
//! ```
//!
//! No I/O, no clock, no session: the caller looks at the machine, hands in what was seen, and does what is
//! decided. So a day is tried in a moment, and a dry run decides exactly as a real one does.

mod admission;
mod budget;
mod config;
mod decide;
mod facts;
mod glob;
mod kubernetes;
mod retention;
mod rotation;
mod slot;
mod state;

pub use admission::Refusal;
pub use budget::{Cost, Excess, over};
pub use config::{Admission, Budget, Config, Mode, Rule, Spool};
pub use decide::{Action, Decision, decide};
pub use facts::{Facts, Headroom, Key, Machine};
pub use kubernetes::{Pod, pod_folder, pod_uid};
pub use retention::{Kept, excess};
pub use rotation::Rotation;
pub use slot::{OnSlot, SlotProfile};
pub use state::{Attached, Barred, State};
