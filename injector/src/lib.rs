//! The engine: attaches to another process, watches it, and detaches. It stops the process for some
//! milliseconds, puts the payload in, and gives everything back.
//!
//! ```
//! use heapattach_injector::attach::{self, HookMode, Options, PayloadImage};
//!
//! /// How often a process asked for memory in a second. `payload` is the file that heapattach-payload
//! /// is built into.
//! fn calls(pid: i32, payload: &[u8]) -> Result<u64, Box<dyn std::error::Error>> {
//!     let target = attach::open(pid, false)?;
//!     let image = PayloadImage::parse(payload)?;
//!     let options = Options::sampling(HookMode::Auto);
//!     let session = attach::attach(&target, &image, options, None);
//!     let mut session = session.map_err(|failure| failure.error)?;
//!     std::thread::sleep(std::time::Duration::from_secs(1));
//!     let counts = session.stream.counts(&target.memory)?;
//!     session.detach().result.map_err(|left| left.error)?;
//!     Ok(counts.totals().0)
//! }
//!
//! // A refusal says what was found, what is needed and what to do; nothing was touched.
//! let own = std::process::id().cast_signed();
//! assert!(calls(own, &[]).unwrap_err().to_string().contains("is heapattach itself"));
//! ```
//!
//! | module | what it offers |
//! |---|---|
//! | [`target`] | a process that is held and stopped; a program at its start |
//! | [`attach`] | may we, what would it cost, and doing it |
//! | [`watch`] | a session while its target runs |
//! | [`moment`] | the whole memory at one moment, for checks |
//! | [`detach`] | undoing, also what a killed session left |
//! | [`family`] | children, programs that are execed, threads up to their end |
//!
//! Behind them, private:
//!
//! ```text
//! preflight, module -> hook: survey, plan       the target runs, nothing is touched
//!                                  |
//! trace: stopped -> installation -> hook: patch  it is stopped, a few milliseconds
//!                                  |
//!                     session, records           it runs, we count and keep looking for new modules
//!                                  |
//! trace: stopped -------------> session: undo    also for what a killed heapattach left
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | `arch` | all that is particular to a processor |
//! | `module` | symbols and slots of what is loaded |
//! | `trace` | stops threads, follows families, watches ends |
//! | `preflight`, `refusal` | whether an attach is allowed and would work |
//! | `home` | what lies in a target while a session lasts, and its journal |
//! | `hook` | which functions are hooked, and how |
//! | `installation` | changes the target, and changes it back |
//! | `loader` | the other way in: the target's own loader loads the hooks |
//! | `unwind`, `scripts` | what stacks are followed by |
//! | `records` | what is read while the target runs |
//! | `session`, `options` | attach, watch, detach; what a killed session left |
//! | `snapshot` | the whole memory at one moment, for checks |
//!
//! Only system calls are made in the target, by a borrowed thread; everything else is written from
//! outside. If its user wants the target to load the hooks (`loader`), no thread is borrowed for
//! that either. Whatever is read from the target is hostile: bounded, checked, never a panic. It knows no
//! recording, no report and no command line.

pub mod attach;
pub mod detach;
pub mod family;
#[doc(hidden)]
pub mod inside;
pub mod moment;
pub mod target;
pub mod watch;

mod arch;
mod home;
mod hook;
mod installation;
mod loader;
mod module;
mod options;
mod preflight;
mod records;
mod refusal;
mod scripts;
mod session;
mod snapshot;
mod trace;
mod unwind;
