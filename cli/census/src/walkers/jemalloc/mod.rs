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
mod samples;
mod walk;

use std::ops::Range;

use crate::{Answer, Moment, Sink, Walker};

pub(crate) use bins::{Bins, Row};
pub(crate) use classes::Quantum;
pub use samples::{Sample, Samples, samples};

/// Pages in memory of dirty extents, and of slabs where all regions are free: memory whose contents the allocator
/// does not need.
///
/// # Errors
/// Why that is not certain: it is told only if all checks of a walk hold, no lock is taken and no thread is seen
/// within the library.
pub fn free_pages(moment: &Moment<'_>) -> Result<Vec<Range<u64>>, String> {
    let mut pages = Vec::new();
    let roots = root::roots(moment);
    if roots.is_empty() {
        return Err("no jemalloc whose layout is known was found".to_owned());
    }
    for root in roots {
        let heap = walk::Heap::new(moment, root)?;
        pages.extend(heap.free_pages(moment));
        let mut all = crate::Walk::default();
        heap.walk(moment, &mut all, &mut Nothing);
        if let crate::Trust::Inexact(doubts) = &all.trust {
            let first = doubts.first().map_or("", |doubt| doubt.why.as_str());
            return Err(format!("the walk of its heap is not exact: {first}"));
        }
        if all.in_flight > 0 {
            return Err(format!("{} threads are in the middle of a call", all.in_flight));
        }
    }
    Ok(pages)
}

/// Blocks are of no interest.
struct Nothing;

impl Sink for Nothing {
    fn block(&mut self, _: crate::Block) {}
}

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
