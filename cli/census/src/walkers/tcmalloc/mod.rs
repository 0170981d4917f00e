//! tcmalloc of gperftools 2.9 and later, with its usual pages of 8 KiB; stripped or not.
//!
//! A tree leads from every page to its span ([`span`]); which blocks of a class are free is told by lists of
//! spans, of central caches and of thread caches ([`tables`]), all of them found by what they hold.

mod span;
mod tables;
mod walk;

pub(crate) use tables::{Central, Sizes, caches};

use crate::{Answer, Moment, Sink, Walker};

/// The walker.
#[derive(Clone, Copy, Debug)]
pub struct Tcmalloc;

impl Walker for Tcmalloc {
    fn name(&self) -> &'static str {
        "tcmalloc"
    }

    fn walk(&self, moment: &Moment<'_>, sink: &mut dyn Sink) -> Answer {
        let trees = span::trees(moment);
        let heaps: Vec<_> = trees.iter().map(|tree| walk::Heap::new(moment, tree)).collect();
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
