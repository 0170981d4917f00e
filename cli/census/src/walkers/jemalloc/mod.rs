//! jemalloc 5.3: of the system, bundled, prefixed, in Rust, stripped or not.
//!
//! The tree of pages leads to every extent ([`root`]), an extent's books tell its blocks ([`extent`]). Which
//! of them thread caches have is in lists of the arenas ([`arena`], [`cache`]), whose layout depends on the
//! release ([`layout`]). Only this last is a table; a walk without it says so.

mod arena;
mod bins;
mod cache;
mod classes;
mod extent;
mod layout;
mod root;
mod walk;

use crate::{Answer, Moment, Sink, Walker};

pub(crate) use bins::{Bins, Row};
pub(crate) use classes::Quantum;

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Jemalloc;

impl Walker for Jemalloc {
    fn name(&self) -> &'static str {
        "jemalloc"
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let heaps: Vec<_> =
            root::roots(moment).into_iter().map(|root| walk::Heap::new(moment, root)).collect();
        if heaps.is_empty() {
            return Answer::Absent;
        }
        if let Some(why) = heaps.iter().find_map(|heap| heap.as_ref().err()) {
            return Answer::Refused(why.clone());
        }
        let mut all = crate::Walk::default();
        for heap in heaps.into_iter().flatten() {
            heap.walk(moment, &mut all, sink);
        }
        Answer::Walked(all)
    }
}
