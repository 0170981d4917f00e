//! Which processes of a machine are watched, when, and at what cost.
//!
//! ```text
//! config (rules) + facts of each process + what is barred -> decide -> watch | wait | refuse, with the reason
//! measured cost + limits -> budget -> detach these, because
//! ```
//!
//! ```
//! use std::{collections::{BTreeMap, HashMap, HashSet}, time::Duration};
//! use heapattach_agent::{Action, Config, Facts, Key, Machine, State, decide};
//!
//! let config = Config::parse("version = 1\n[[rule]]\nname = 'web'\nprocess = 'server*'\n")?;
//! let (key, age) = (Key { pid: 4711, start: 1 }, Duration::from_secs(100));
//! let server = [Facts { key, age, name: "server-1".into(), ..Facts::default() }];
//! let machine = Machine { now: 1000, processors: 2, pressure: Some(1.0) };
//! let (watched, paused, mut turns) = (HashSet::new(), HashMap::new(), BTreeMap::new());
//! let all = decide(&config, &State::default(), &machine, &server, &watched, &paused, &mut turns);
//! assert_eq!((&all[0].action, &all[0].rule.name[..]), (&Action::Watch, "web"));
//! # Ok::<(), String>(())
//! ```
//!
//! No I/O, no clock, no session: the caller looks at the machine, hands in what was seen, and does what is
//! decided. So a day is tried in a moment, and a dry run decides exactly as a real one does.

mod admission;
mod budget;
mod config;
#[cfg(test)]
mod day_tests;
mod decide;
mod facts;
mod glob;
mod kubernetes;
mod look;
mod quantity;
mod retention;
mod rotation;
mod schedule;
mod serve;
mod slot;
mod spool;
mod state;

pub use admission::Refusal;
pub use budget::{Cost, Excess, for_sessions, over};
pub use config::{Admission, Budget, Config, Mode, Rule};
pub use decide::{Action, Decision, decide, why_not};
pub use facts::{Facts, Headroom, Key, Machine};
pub use kubernetes::{Pod, pod_folder, pod_uid};
pub use look::{Look, Looked};
pub use retention::{Kept, excess};
pub use rotation::Rotation;
pub use schedule::{Scheduled, due, scheduled};
pub use serve::Serve;
pub use slot::{OnSlot, SlotProfile};
pub use spool::{Form, Spool};
pub use state::{Attached, Barred, State};
