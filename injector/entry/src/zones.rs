//! A few ranges of addresses, to be found among very many numbers.

use std::ops::Range;

/// Ranges, sorted and merged. Almost every number asked about fails one comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Zones {
    ranges: Vec<Range<u64>>,
    low: u64,
    span: u64,
}

impl Zones {
    pub(super) fn new(ranges: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut sorted: Vec<_> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
        sorted.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        let low = ranges.first().map_or(0, |first| first.start);
        let span = ranges.last().map_or(0, |last| last.end) - low;
        Self { ranges, low, span }
    }

    #[inline]
    pub(super) fn contains(&self, number: u64) -> bool {
        number.wrapping_sub(self.low) < self.span && self.search(number)
    }

    /// The first and the last address that any range spans: the lowest, and how many follow.
    #[inline]
    pub(super) fn hull(&self) -> (u64, u64) {
        (self.low, self.span)
    }

    fn search(&self, number: u64) -> bool {
        let next = self.ranges.partition_point(|range| range.start <= number);
        next.checked_sub(1).is_some_and(|index| self.ranges[index].contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn contains_what_some_range_contains(
            ranges in prop::collection::vec((0u64..300, 0u64..40), 0..8),
            asked in 0u64..400,
        ) {
            let ranges: Vec<_> = ranges.into_iter().map(|(a, len)| a..a + len).collect();
            let truth = ranges.iter().any(|range| range.contains(&asked));
            prop_assert_eq!(Zones::new(ranges).contains(asked), truth);
        }
    }

    #[test]
    fn the_ends_of_the_address_space_are_addresses_too() {
        let zones = Zones::new([u64::MAX - 1..u64::MAX, 0..1]);
        assert!(zones.contains(0) && zones.contains(u64::MAX - 1));
        assert!(!zones.contains(1) && !zones.contains(u64::MAX));
    }
}
