//! What allocators count: settings, sums, arenas, size classes, caches, locks, read from outside.
//!
//! Nothing is stopped and nothing runs in the target: counters are words that their owner writes whole. Where
//! they lie is found once ([`find`]), and read as often as wanted ([`Place::read`]), each time over a fresh
//! [`Moment`] of the running process. What is not certain is named, and not told.

mod allocator_kind;
mod glibc;
mod jemalloc;
mod mallocng;
mod mimalloc;
mod statistics;
mod tcmalloc;

pub use allocator_kind::AllocatorKind;
pub use statistics::{Arena, Class, Numbers, Statistics, ThreadCount, Value, add};

use crate::Moment;

/// Where the counters of an allocator are.
#[derive(Debug)]
pub enum Place {
    /// The C library's own.
    Glibc(Box<glibc::Place>),
    /// musl's.
    Mallocng(mallocng::Place),
    /// mimalloc.
    Mimalloc(mimalloc::Place),
    /// tcmalloc.
    Tcmalloc(tcmalloc::Place),
    /// jemalloc.
    Jemalloc(jemalloc::Place),
}

/// Those of all allocators of a process.
pub fn find(moment: &Moment<'_>) -> Vec<Place> {
    let mut all: Vec<_> = jemalloc::Place::find(moment).into_iter().map(Place::Jemalloc).collect();
    // A module has one allocator, and many variables of its own.
    let taken: Vec<usize> = all.iter().filter_map(Place::image).collect();
    let is_open = |image: usize| !taken.contains(&image);
    all.extend(mimalloc::Place::find(moment, is_open).into_iter().map(Place::Mimalloc));
    all.extend(tcmalloc::Place::find(moment, is_open).into_iter().map(Place::Tcmalloc));
    all.extend(mallocng::Place::find(moment).map(Place::Mallocng));
    // Beside another allocator the C library's own is there and not used.
    let has_others = !all.is_empty();
    let glibc =
        glibc::Place::find(moment, is_open).filter(|place| !has_others || place.is_used(moment));
    all.extend(glibc.map(|place| Place::Glibc(Box::new(place))));
    all
}

impl Place {
    /// The module in which all of a jemalloc was found.
    fn image(&self) -> Option<usize> {
        match self {
            Self::Jemalloc(place) => place.image(),
            Self::Glibc(_) | Self::Mallocng(_) | Self::Mimalloc(_) | Self::Tcmalloc(_) => None,
        }
    }

    /// What it counts now; `None` if it is there no more.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        match self {
            Self::Glibc(place) => place.read(moment),
            Self::Jemalloc(place) => place.read(moment),
            Self::Mallocng(place) => place.read(moment),
            Self::Mimalloc(place) => place.read(moment),
            Self::Tcmalloc(place) => place.read(moment),
        }
    }
}
