//! A bucket: what one stack allocated of one size.

use heapattach_process::little_endian::u64_at;

/// Its head: next in its chain, next of all, kind, hash, size, length of the stack.
pub(super) const HEAD: usize = 48;
/// The kind of buckets that are of memory.
const MEMORY: u64 = 1;
/// No stack is longer; the runtime's limit is 128 by default.
const LONGEST: u64 = 1024;
/// Nor is any object larger.
const LARGEST: u64 = 1 << 48;
/// Active, and three that are to come.
const CYCLES: usize = 4;

/// Objects that came, and went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that were sampled.
    pub came: u64,
    /// Of these what was collected.
    pub went: u64,
}

/// A bucket, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Where it is: what it is known by.
    pub at: u64,
    /// The size of its objects.
    pub size: u64,
    /// Where calls return to, innermost first.
    pub stack: Vec<u64>,
    /// As of the last collection that is finished: what pprof tells.
    pub active: Counts,
    /// Now, as far as is known.
    pub now: Counts,
}

/// What is known of a bucket before its counts are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub at: u64,
    pub size: u64,
    pub stack: Vec<u64>,
}

impl Place {
    /// Of its head; its stack is still to come. `None` if it is not one of memory.
    pub fn of(at: u64, head: &[u8]) -> Option<(Self, usize)> {
        let (kind, size, length) = (u64_at(head, 16)?, u64_at(head, 32)?, u64_at(head, 40)?);
        let is_one =
            kind == MEMORY && (1..LARGEST).contains(&size) && (1..=LONGEST).contains(&length);
        let length = usize::try_from(length).ok().filter(|_| is_one)?;
        Some((Self { at, size, stack: Vec::new() }, length))
    }

    /// Where its counts are.
    pub fn record(&self) -> u64 {
        self.at + (HEAD + self.stack.len() * 8) as u64
    }

    /// With its counts; `words` are those of one cycle, 4, or 2 since go1.27.
    pub fn with(&self, record: &[u8], words: usize) -> Option<Bucket> {
        let cycle = |cycle: usize| {
            let at = cycle * words * 8;
            Some(Counts { came: u64_at(record, at)?, went: u64_at(record, at + 8)? })
        };
        let active = cycle(0)?;
        let mut now = active;
        for coming in (1..CYCLES).map(cycle) {
            let coming = coming?;
            now.came = now.came.checked_add(coming.came)?;
            now.went = now.went.checked_add(coming.went)?;
        }
        let Self { at, size, stack } = self.clone();
        Some(Bucket { at, size, stack, active, now })
    }
}

/// The bytes of the counts of a bucket.
pub(super) fn record_bytes(words: usize) -> usize {
    CYCLES * words * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn counts_of_all_cycles_add_up_whatever_their_width() {
        let place = Place { at: 0x1000, size: 16, stack: vec![1, 2] };
        assert_eq!(place.record(), 0x1000 + 48 + 16);
        let old = bytes(&[5, 1, 80, 16, 2, 0, 32, 0, 0, 1, 0, 16, 0, 0, 0, 0]);
        let new = bytes(&[5, 1, 2, 0, 0, 1, 0, 0]);
        for (record, words) in [(old, 4), (new, 2)] {
            assert_eq!(record.len(), record_bytes(words));
            let bucket = place.with(&record, words).unwrap();
            assert_eq!(bucket.active, Counts { came: 5, went: 1 });
            assert_eq!(bucket.now, Counts { came: 7, went: 2 });
        }
    }

    #[test]
    fn what_is_not_of_memory_is_none() {
        let head = |kind, size, length| bytes(&[0, 0, kind, 9, size, length]);
        assert!(Place::of(8, &head(1, 16, 3)).is_some_and(|(_, length)| length == 3));
        for wrong in [head(2, 16, 3), head(1, 0, 3), head(1, 16, 0), head(1, 16, 5000)] {
            assert_eq!(Place::of(8, &wrong), None);
        }
        assert_eq!(Place::of(8, &[0; 40]), None);
    }
}
