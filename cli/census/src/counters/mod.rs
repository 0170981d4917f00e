//! What allocators count: settings, sums, arenas, size classes, caches, locks, read from outside.
//!
//! Nothing is stopped and nothing runs in the target: counters are words that their owner writes whole. Where
//! they lie is found once ([`find`]), and read as often as wanted ([`Place::read`]), each time over a fresh
//! [`Moment`] of the running process. What is not certain is named, and not told.

mod glibc;
mod jemalloc;
mod statistics;

pub use statistics::{Arena, Class, Numbers, Statistics, Value, add};

use crate::Moment;

/// Where the counters of an allocator are.
#[derive(Debug)]
pub enum Place {
    /// The C library's own.
    Glibc(Box<glibc::Place>),
    /// jemalloc.
    Jemalloc(jemalloc::Place),
}

/// Those of all allocators of a process.
pub fn find(moment: &Moment<'_>) -> Vec<Place> {
    let mut all: Vec<_> = jemalloc::Place::find(moment).into_iter().map(Place::Jemalloc).collect();
    all.extend(glibc::Place::find(moment).map(|place| Place::Glibc(Box::new(place))));
    all
}

impl Place {
    /// What it counts now; `None` if it is there no more.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        match self {
            Self::Glibc(place) => place.read(moment),
            Self::Jemalloc(place) => place.read(moment),
        }
    }
}
