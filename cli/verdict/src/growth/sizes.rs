//! Which sizes requests led to, as the hooks have noted it: every allocator rounds up in its own way.

use std::{collections::BTreeMap, ops::RangeInclusive};

use heapattach_abi::flow::{CLASSES, HAS_HEAD, STEP, chunk_of, class, least};

use super::flow::Classes;
use heapattach_profile::Histogram;

/// By class of request: the least size and the greatest.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    noted: BTreeMap<usize, Noted>,
}

#[derive(Clone, Copy, Debug)]
struct Noted {
    least: u64,
    greatest: u64,
    /// One of them stood before its block: what is left over of a chunk that was cut is given along.
    has_head: bool,
}

impl Sizes {
    /// Out of what a moment knows ([`heapattach_ledger::Moment::flow`]).
    pub fn of(flow: &[[u64; 3]]) -> Self {
        let noted = flow.iter().filter_map(|&[number, low, greatest]| {
            let request = usize::try_from(number).ok()?.checked_sub(CLASSES)?;
            let (least, has_head) = (low & !HAS_HEAD, low & HAS_HEAD != 0);
            let is_sane = request < CLASSES && least > 0 && greatest >= least;
            is_sane.then_some((request, Noted { least, greatest, has_head }))
        });
        Self { noted: noted.collect() }
    }

    /// What a request of so many bytes takes of the heap.
    pub fn taken(&self, request: f64) -> f64 {
        let chunk = chunk_of(whole(request));
        match self.noted.get(&class(chunk)) {
            Some(noted) => chunk.clamp(noted.least, noted.greatest) as f64,
            None => chunk as f64,
        }
    }

    /// The class of such a request.
    pub fn class_of(&self, request: f64) -> usize {
        class(whole(self.taken(request)))
    }

    /// The classes of requests of one size, between these.
    pub fn classes_of_one(&self, low: f64, high: f64) -> Classes {
        let (first, last) = (chunk_of(whole(low)), chunk_of(whole(high)));
        // What is not known may be glibc's.
        let noted = |chunk| self.noted.get(&class(chunk)).copied().filter(|noted| !noted.has_head);
        let first = noted(first).map_or(first, |noted| noted.least);
        let last = noted(last).map_or(last.saturating_add(STEP), |noted| noted.greatest);
        class(first)..=class(last.max(first))
    }

    /// The classes of requests between these buckets of a histogram.
    pub fn classes_of(&self, buckets: RangeInclusive<usize>) -> Classes {
        let low = chunk_of(Histogram::range(*buckets.start()).0);
        let high = chunk_of(Histogram::range(*buckets.end()).1);
        let own = self.noted.range(class(low)..=class(high).max(class(low)));
        let noted = own.fold((low, high), |(least, greatest), (_, noted)| {
            (least.min(noted.least), greatest.max(noted.greatest))
        });
        class(noted.0)..=class(noted.1)
    }

    /// A size in the middle of a class; of one whose sizes are known, of these.
    pub fn middle(&self, number: usize) -> f64 {
        let number = number.min(CLASSES - 1);
        let own = |size: &u64| class(*size) == number;
        let known = self.noted.values().flat_map(|noted| [noted.least, noted.greatest]).filter(own);
        let known = known.fold(None, |ends: Option<(u64, u64)>, size| {
            let (low, high) = ends.unwrap_or((size, size));
            Some((low.min(size), high.max(size)))
        });
        let (low, high) = known.unwrap_or_else(|| {
            let (low, high) = (least(number), least(number + 1));
            // Of a class that is a single size that size.
            if high - low <= STEP { (low, low) } else { (low, high) }
        });
        (low as f64 + high as f64) / 2.0
    }
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number.ceil() as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Noted of a request: its sizes.
    fn noted(request: u64, least: u64, greatest: u64) -> [u64; 3] {
        [(CLASSES + class(chunk_of(request))) as u64, least, greatest]
    }

    #[test]
    fn a_request_has_the_class_of_its_chunk_where_nothing_is_noted() {
        let sizes = Sizes::default();
        assert_eq!((sizes.class_of(24.0), sizes.class_of(f64::NAN)), (2, 2));
        assert_eq!(sizes.classes_of(7..=7), sizes.class_of(64.0)..=sizes.class_of(127.0));
        assert_eq!(sizes.classes_of_one(1000.0, 1000.0), 63..=64);
        assert_eq!((sizes.middle(4), sizes.middle(64)), (64.0, 1152.0));
    }

    #[test]
    fn where_another_allocator_rounds_up_its_sizes_count() {
        let sizes = Sizes::of(&[[4, 10, 3], noted(1000, 1024, 1024), noted(1030, 1280, 1280)]);
        assert_eq!((sizes.taken(1000.0), sizes.taken(1030.0)), (1024.0, 1280.0));
        assert_eq!(sizes.classes_of_one(1000.0, 1000.0), 64..=64);
        assert_eq!((sizes.middle(64), sizes.middle(65)), (1024.0, 1280.0));
        // Of others nothing is known.
        assert_eq!(sizes.taken(100.0), 112.0);
        let of_glibc = Sizes::of(&[noted(1000, 1008 | HAS_HEAD, 1008)]);
        assert_eq!(of_glibc.classes_of_one(1000.0, 1000.0), 63..=64);
    }

    #[test]
    fn numbers_of_a_hostile_file_are_left_out() {
        let sizes = Sizes::of(&[[u64::MAX; 3], [CLASSES as u64, 0, 9], [CLASSES as u64, 9, 3]]);
        assert!(sizes.noted.is_empty());
        let sizes = Sizes::of(&[noted(1, 8, u64::MAX)]);
        assert!(sizes.classes_of_one(1.0, f64::INFINITY).end() < &CLASSES);
        assert!(sizes.middle(usize::MAX).is_finite());
    }
}
