//! Memory of a moment once the target goes on, as walkers look at it.

use std::ops::Range;

use heapattach_census::{Memory, Thread};
use heapattach_injector::moment::{Image, Standing};
use heapattach_process::presence::Presence;

/// A thread of the moment.
pub(super) fn thread(standing: &Standing) -> Thread {
    let Standing { tid, pointer, stack, code, call, words, .. } = *standing;
    let call = call.and_then(|call| u64::try_from(call).ok());
    Thread { tid, pointer, stack, code, call, registers: words.to_vec() }
}

/// Memory of a moment once the target goes on.
pub(super) struct Kept<'a, 't> {
    pub(super) image: &'a Image<'t>,
    /// What the clone has, if there is one.
    pub(super) presence: Option<Presence>,
}

impl Memory for Kept<'_, '_> {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        self.image.read_parts(at, buffer)
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = self.image.copies_in(range);
        if let Some(presence) = &self.presence {
            parts.extend(presence.there(range));
        }
        merged(parts)
    }
}

/// Ascending, and no two overlap or touch.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
