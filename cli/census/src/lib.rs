//! The heap of a process at one moment: every block that its allocators know, in use or free.
//!
//! ```text
//! memory, maps, threads -> moment -> walker (one a kind of allocator) -> blocks -> sink
//!                                                                     -> walk: arenas, checks, trust
//! ```
//!
//! It stops nothing, writes nothing and runs nothing in the target: memory that does not change
//! meanwhile is read through a trait, be it that of a stopped process, of a clone, or bytes of a test.
//! It needs no symbols and knows no table of versions: layouts are found by what must hold in them.
//! Whatever is read is hostile: time and memory are bounded, and there is no panic.
//!
//! # A walker
//!
//! ```
//! use heapattach_census::{Answer, Arena, Block, Census, Moment, NoMemory, Sink, State, Walk, Walker};
//!
//! struct Pool;
//!
//! impl Walker for Pool {
//!     fn name(&self) -> &'static str {
//!         "pool"
//!     }
//!     fn walk(&self, _: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
//!         sink.block(Block { at: 0x1000, size: 48, state: State::Used, arena: 0, class: 0 });
//!         Answer::Walked(Walk { arenas: vec![Arena::default()], ..Walk::default() })
//!     }
//! }
//!
//! let moment = Moment::new(&NoMemory, Vec::new(), Vec::new());
//! let census = Census::take(&moment, &[&Pool]);
//! assert_eq!((census.allocators[0].name, census.walks().count()), ("pool", 1));
//! ```
//!
//! One folder in [`walkers`] a kind of allocator, one type in it that implements [`Walker`], and a line in
//! [`walkers::ALL`]. It answers in one of four ways, and never guesses:
//!
//! | answer | when |
//! |---|---|
//! | [`Answer::Absent`] | the process has no such allocator |
//! | [`Answer::Walked`], [`Trust::Exact`] | all checks hold |
//! | [`Answer::Walked`], [`Trust::Inexact`] | what was told is certain but for the named arenas |
//! | [`Answer::Refused`] | it is there, and nothing can be said; no block was given to the sink |

mod block;
mod census;
pub mod contents;
mod core_memory;
pub mod counters;
pub mod likely_sites;
mod live;
mod memory;
mod moment;
pub mod not_written;
mod one_arena;
mod pages;
pub mod pins;
mod region;
pub mod stats;
pub mod types;
mod walk;
pub mod walkers;
pub mod waste;
mod window;

#[doc(hidden)]
pub mod synthetic;

pub use block::{Block, Sink, State};
pub use census::{Allocator, Census};
pub use core_memory::CoreMemory;
pub use live::Live;
pub use memory::{Memory, NoMemory};
pub use moment::{Image, Moment, Thread};
pub use one_arena::OneArena;
pub use region::{Region, RegionKind, regions};
pub use walk::{Answer, Arena, Bytes, Check, Doubt, Trust, Walk, Walker};
pub use window::Window;
