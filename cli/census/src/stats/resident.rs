//! How much of a range is in memory, how much in swap. Asked in ascending order it costs next to nothing.

use std::ops::Range;

use crate::Moment;

use super::Amount;

/// The parts of private memory that have anything in them.
#[derive(Clone, Debug, Default)]
pub struct Resident {
    present: Parts,
    swapped: Parts,
}

/// Ranges, and where the last question was answered.
#[derive(Clone, Debug, Default)]
struct Parts {
    parts: Vec<Range<u64>>,
    at: usize,
}

impl Resident {
    /// Of all private memory of a moment.
    pub fn of(moment: &Moment<'_>) -> Self {
        let private = moment.regions().iter().filter(|region| region.is_private_memory());
        let (mut present, mut swapped) = (Vec::new(), Vec::new());
        for region in private {
            present.extend(moment.present(&region.range));
            swapped.extend(moment.swapped(&region.range));
        }
        Self { present: Parts { parts: present, at: 0 }, swapped: Parts { parts: swapped, at: 0 } }
    }

    /// How much of a range that is.
    #[inline]
    pub fn overlap(&mut self, range: &Range<u64>) -> Amount {
        let there = self.present.overlap(range);
        let swapped = if self.swapped.parts.is_empty() { 0 } else { self.swapped.overlap(range) };
        Amount { resident: there.saturating_sub(swapped), swapped }
    }
}

impl Parts {
    #[inline]
    fn overlap(&mut self, range: &Range<u64>) -> u64 {
        if let Some(part) = self.parts.get(self.at)
            && part.start <= range.start
            && range.end <= part.end
        {
            return range.end.saturating_sub(range.start);
        }
        self.look(range)
    }

    fn look(&mut self, range: &Range<u64>) -> u64 {
        self.at = self.parts.partition_point(|part| part.end <= range.start);
        let mut sum = 0;
        for part in &self.parts[self.at..] {
            if part.start >= range.end {
                break;
            }
            sum += part.end.min(range.end) - part.start.max(range.start);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::Synthetic;

    #[test]
    fn what_was_never_touched_is_not_in_memory() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        for page in [0x11000, 0x12000, 0x15000] {
            memory.write(page, 1);
        }
        let mut resident = Resident::of(&memory.moment());
        let mut of = |range| resident.overlap(&range).resident;
        assert_eq!(of(0x10000..0x20000), 0x3000);
        assert_eq!(of(0x12800..0x15010), 0x810);
        assert_eq!(of(0x11010..0x11020), 0x10);
        assert_eq!(of(0x16000..0x17000), 0);
        assert_eq!(of(0x10ff0..0x11010), 0x10);
    }
}
