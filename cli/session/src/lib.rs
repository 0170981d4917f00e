//! A session with a live process, from the attach to its result: the process that traces, the command's
//! half that talks with it, and what is made of what they see.
//!
//! ```no_run
//! use heapattach_injector::{attach::PayloadImage, target::Target};
//! use heapattach_report::Report;
//! use heapattach_session::{
//!     client::{front, talk::Talk},
//!     fork::{self, Side},
//!     tracer,
//!     watch::{Files, options::WatchOptions},
//! };
//!
//! struct Aloud;
//!
//! impl Talk for Aloud {
//!     fn say(&mut self, text: &str) {
//!         eprintln!("{text}");
//!     }
//! }
//!
//! /// The result of a session with a process; nothing if the process that traced it was killed.
//! fn look(
//!     target: Target,
//!     options: &WatchOptions,
//!     image: &'static PayloadImage,
//! ) -> std::io::Result<Option<Report>> {
//!     match fork::fork_tracer()? {
//!         Side::Tracer(line) => {
//!             tracer::attach(line, target, options, Files::default(), image);
//!             std::process::exit(0)
//!         }
//!         Side::Front(line, tracer) => {
//!             Ok(front::follow(line, tracer, front::Mode::Attach, &mut Aloud, None))
//!         }
//!     }
//! }
//! ```
//!
//! ```text
//! fork +-> tracer -> watch: injector::Session ... hook_counts, result -> Report
//!      |      |  one JSON object a line (client::message)
//!      +-> client: signals, what is said (client::talk)       -> Report, to the caller
//! ```
//!
//! | room | what it does |
//! |---|---|
//! | [`fork`] | starts the tracing process, and the program of `run` |
//! | [`tracer`], [`check_tracer`] | the half that stops the target: watches it, or checks it |
//! | [`client`] | the half that the user talks to; what both halves say to each other |
//! | [`watch`] | one session, from the attach to its result |
//! | [`allocator`] | what allocators count, read without a stop |
//! | [`check`] | checks: what is reachable at one moment, and what is told of it |
//! | [`lsan`] | the language of LeakSanitizer: options, and what a program defines for it |
//! | `family` | several processes at once |
//! | `runtimes` | runtimes of languages in the target, and what is seen of their memory |
//! | [`own_cost`], `own_memory` | what heapattach itself takes, and what of it is returned |
//!
//! Knows no command line, no exit status, no page and no picture, and carries no payload: what it is to
//! do comes as plain options, the payload's image with them, and what it says goes to a
//! [`client::talk::Talk`]. Only processes that [`fork`] started stop a target or write into it.

pub mod allocator;
pub mod check;
pub mod check_tracer;
pub mod client;
mod family;
pub mod fork;
pub mod golang;
pub mod heap;
pub mod lsan;
mod note;
pub mod own_cost;
pub mod own_memory;
pub mod own_profile;
mod page_kinds;
pub mod recorded;
mod runtimes;
mod thread_stacks;
pub mod tracer;
mod valgrind;
pub mod watch;
