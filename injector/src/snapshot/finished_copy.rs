//! A copy that was made early, once it was finished in the stop: what it has, and what it does not have.

use std::ops::Range;

use heapattach_process::page_writes::Pages;

/// What was copied.
#[derive(Debug)]
pub struct Finished {
    /// Mappings of which all that is there is in the copies.
    pub areas: Vec<Range<u64>>,
    /// What is there; ascending.
    pub parts: Vec<Range<u64>>,
    /// The same as the kernel tells it.
    pub pages: Vec<Pages>,
    /// The bytes of these, and of pages that are there no more until [`Finished::clear_gone`].
    pub copies: Vec<(u64, Vec<u8>)>,
    /// How much of it was copied in the stop.
    pub late: u64,
    /// Pages that could not be read.
    pub unreadable: u64,
}

impl Finished {
    /// Has pages that are there no more be zero: when the target goes on.
    pub fn clear_gone(&mut self) {
        clear_gone(self.copies.iter_mut(), &self.parts);
    }

    /// Of a range: bytes in memory, and in swap, with `others` that are in it.
    pub(super) fn amount(
        &self,
        range: &Range<u64>,
        others: impl Iterator<Item = Pages>,
    ) -> (u64, u64) {
        let first = self.pages.partition_point(|pages| pages.range.end <= range.start);
        let own = self.pages[first..].iter().take_while(|pages| pages.range.start < range.end);
        let counted = own.cloned().chain(others).filter(|pages| !pages.is_zero);
        counted.fold((0, 0), |(resident, swapped), pages| {
            let bytes = pages.range.end.min(range.end) - pages.range.start.max(range.start);
            match pages.is_swapped {
                true => (resident, swapped + bytes),
                false => (resident + bytes, swapped),
            }
        })
    }

    /// The parts of a range that are in swap.
    pub fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.pages.partition_point(|pages| pages.range.end <= range.start);
        let own = self.pages[first..].iter().take_while(|pages| pages.range.start < range.end);
        let own = own.filter(|pages| pages.is_swapped).map(|pages| &pages.range);
        own.map(|part| part.start.max(range.start)..part.end.min(range.end)).collect()
    }

    /// Divides a range: what is in these mappings, as far as it is there, and what is in none of them.
    pub fn divide(&self, range: &Range<u64>) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        divide(range, &self.areas, &self.parts)
    }
}

/// What is in copies and not among these parts is there no more: it is zero when it comes again. That can be much, and
/// need not be done in the stop.
pub(super) fn clear_gone<'c>(
    copies: impl Iterator<Item = &'c mut (u64, Vec<u8>)>,
    parts: &[Range<u64>],
) {
    for (at, bytes) in copies {
        let end = *at + bytes.len() as u64;
        let first = parts.partition_point(|part| part.end <= *at);
        let own = parts[first..].iter().take_while(|part| part.start < end);
        let mut from = *at;
        for part in own.cloned().chain(std::iter::once(end..end)) {
            let place = |to: u64| usize::try_from(to - *at).unwrap_or(0);
            if from < part.start
                && let Some(bytes) = bytes.get_mut(place(from)..place(part.start))
            {
                bytes.fill(0);
            }
            from = from.max(part.end);
        }
    }
}

fn divide(
    range: &Range<u64>,
    areas: &[Range<u64>],
    parts: &[Range<u64>],
) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
    let first = parts.partition_point(|part| part.end <= range.start);
    let there = parts[first..].iter().take_while(|part| part.start < range.end);
    let there = there.map(|part| part.start.max(range.start)..part.end.min(range.end));
    let (mut outside, mut from) = (Vec::new(), range.start);
    for area in areas.iter().filter(|area| area.start < range.end && area.end > range.start) {
        if from < area.start {
            outside.push(from..area.start);
        }
        from = from.max(area.end);
    }
    if from < range.end {
        outside.push(from..range.end);
    }
    (there.collect(), outside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_divided_by_what_is_watched_and_what_is_there() {
        let areas = [0x1000..0x9000, 0x20000..0x30000];
        let parts = [0x2000..0x4000, 0x5000..0x6000, 0x21000..0x22000];
        let (there, outside) = divide(&(0x800..0x28000), &areas, &parts);
        assert_eq!(there, [0x2000..0x4000, 0x5000..0x6000, 0x21000..0x22000]);
        assert_eq!(outside, [0x800..0x1000, 0x9000..0x20000]);
        let (there, outside) = divide(&(0x3000..0x5800), &areas, &parts);
        assert_eq!((there, outside), (vec![0x3000..0x4000, 0x5000..0x5800], vec![]));
    }

    #[test]
    fn what_is_there_no_more_is_zero() {
        let mut copies = [(0x10, vec![1; 8]), (0x20, vec![2; 8]), (0x30, vec![3; 4])];
        clear_gone(copies.iter_mut(), &[0x12..0x14, 0x16..0x18, 0x20..0x28]);
        assert_eq!(copies[0].1, [0, 0, 1, 1, 0, 0, 1, 1]);
        assert_eq!(copies[1].1, [2; 8]);
        assert_eq!(copies[2].1, [0; 4]);
    }
}
