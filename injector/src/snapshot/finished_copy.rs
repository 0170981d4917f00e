//! A copy that was made early, once it was finished in the stop: what it has, and what it does not have.

use std::ops::Range;

use heapattach_process::page_writes::{PageWrites, Pages};

/// What was copied.
#[derive(Debug)]
pub struct Finished {
    /// Mappings of which all that is there is in the copies.
    pub areas: Vec<Range<u64>>,
    /// What is there; ascending.
    pub parts: Vec<Range<u64>>,
    /// The same as the kernel tells it.
    pub pages: Vec<Pages>,
    /// The bytes of these, and perhaps of pages that are there no more.
    pub copies: Vec<(u64, Vec<u8>)>,
    /// How much of it was copied in the stop.
    pub late: u64,
    /// Pages that could not be read.
    pub unreadable: u64,
    /// To be dropped when the target goes on: it takes long.
    pub writes: PageWrites,
}

impl Finished {
    /// Of a range: bytes in memory, and in swap.
    pub fn amount(&self, range: &Range<u64>) -> (u64, u64) {
        let first = self.pages.partition_point(|pages| pages.range.end <= range.start);
        let own = self.pages[first..].iter().take_while(|pages| pages.range.start < range.end);
        let (_, outside) = self.divide(range);
        let others = outside.iter().flat_map(|part| self.writes.there_besides(part));
        let others: Vec<Pages> = others.flatten().collect();
        let counted = own.chain(&others).filter(|pages| !pages.is_zero);
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
}
