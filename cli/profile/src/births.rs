//! When the blocks were allocated that are in use: whether what a stack keeps came at once, or goes on
//! coming.

use serde::{Deserialize, Serialize};

use crate::{Profile, Tick, block::Block};

/// Equal parts of the time from the beginning to now.
pub const SPANS: usize = 8;

/// The blocks in use of one row, by when they were allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Births {
    /// Records of blocks, by the part of the time.
    pub records: [u32; SPANS],
    /// The bytes that these stand for.
    pub bytes: [u64; SPANS],
}

impl Births {
    /// Adds all of another.
    pub fn merge(&mut self, other: &Self) {
        for span in 0..SPANS {
            self.records[span] = self.records[span].saturating_add(other.records[span]);
            self.bytes[span] = self.bytes[span].saturating_add(other.bytes[span]);
        }
    }

    /// All records.
    pub fn all_records(&self) -> u64 {
        self.records.iter().map(|&records| u64::from(records)).sum()
    }

    /// All bytes.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.iter().fold(0, |all, &bytes| all.saturating_add(bytes))
    }

    fn add(&mut self, span: usize, block: &Block) {
        let kind = block.kind();
        let stands_for = match kind.probability() {
            None => kind.size,
            Some(probability) => whole(kind.size as f64 / probability),
        };
        self.records[span] = self.records[span].saturating_add(1);
        self.bytes[span] = self.bytes[span].saturating_add(stands_for);
    }
}

impl Profile {
    /// Of each row when its blocks in use were allocated, after so many ticks: of those rows that have
    /// most bytes in use, by their numbers.
    pub fn births(&self, length: u64, rows: usize) -> Vec<(u32, Births)> {
        let now = Tick::of(length);
        let mut all = vec![Births::default(); self.sheet.rows.all().len()];
        for block in self.live.blocks() {
            let age = u64::from(now.since(block.birth()));
            let span = span(length.saturating_sub(age), length);
            if let Some(births) = all.get_mut(block.kind().row.0 as usize) {
                births.add(span, block);
            }
        }
        most(all, rows)
    }

    /// The same of pages that are still mapped: when they were, in ranges and bytes.
    pub fn page_births(&self, length: u64, rows: usize) -> Vec<(u32, Births)> {
        let now = Tick::of(length);
        let mut all = vec![Births::default(); self.sheet.rows.all().len()];
        for mapped in self.mappings.all() {
            let age = u64::from(now.since(mapped.birth));
            let span = span(length.saturating_sub(age), length);
            if let Some(births) = all.get_mut(mapped.row.0 as usize) {
                let bytes = mapped.range.end - mapped.range.start;
                births.records[span] = births.records[span].saturating_add(1);
                births.bytes[span] = births.bytes[span].saturating_add(bytes);
            }
        }
        most(all, rows)
    }
}

/// Those that have most, by their numbers; the row of all that has no other is none of them.
fn most(all: Vec<Births>, rows: usize) -> Vec<(u32, Births)> {
    let mut told: Vec<(u32, Births)> = (0..).zip(all).collect();
    told.retain(|(row, births)| *row > 0 && births.all_records() > 0);
    told.sort_by_key(|(row, births)| (std::cmp::Reverse(births.all_bytes()), *row));
    told.truncate(rows);
    told
}

/// In which part of the time something happened.
fn span(at: u64, length: u64) -> usize {
    let span = u128::from(at) * SPANS as u128 / u128::from(length.max(1));
    usize::try_from(span).unwrap_or(SPANS).min(SPANS - 1)
}

fn whole(number: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let whole = number as u64;
    whole
}

#[cfg(test)]
mod tests {
    use heapattach_process::{
        addr::RemoteAddr,
        event::{Event, Origin, StackId, What},
    };

    use super::*;
    use crate::Limits;

    fn allocated(stamp: u64, at: u64, stack: u32, size: u64, interval: u64) -> Event {
        let (at, stack) = (RemoteAddr::new(at), StackId(stack));
        let what = What::Allocated { at, size, stack, interval };
        Event { stamp, origin: Origin::default(), what }
    }

    fn freed(stamp: u64, at: u64) -> Event {
        let what = What::Freed { at: RemoteAddr::new(at), block: None };
        Event { stamp, origin: Origin::default(), what }
    }

    #[test]
    fn blocks_in_use_are_told_by_when_they_were_allocated() {
        let mut profile = Profile::new(Limits::default(), 4);
        for step in 0..8_u64 {
            let now = Tick::of(step * 100 + 50);
            let events = [
                allocated(3 * step + 1, 0x1000 * (step + 1), 1, 64, 1),
                allocated(3 * step + 2, 0x100, 2, 5000, 1),
                freed(3 * step + 3, 0x100),
            ];
            profile.apply(&events, now, &mut ());
        }
        profile.apply(&[allocated(99, 0x200, 3, 1, 1000)], Tick::of(799), &mut ());
        let births = profile.births(800, 10);
        assert_eq!(births.len(), 2, "all of stack 2 was freed: {births:?}");
        assert_eq!(
            births[0].1.bytes,
            [0, 0, 0, 0, 0, 0, 0, 1000],
            "one sample stands for an interval"
        );
        assert_eq!((births[1].1.records, births[1].1.bytes), ([1; SPANS], [64; SPANS]));
        assert_eq!(profile.births(800, 1).len(), 1, "those that hold most");
    }

    #[test]
    fn pages_are_told_by_when_they_were_mapped() {
        let mut profile = Profile::new(Limits::default(), 4);
        for step in 0..8_u64 {
            let (at, stack) = (RemoteAddr::new(0x10_0000 * (step + 1)), StackId(1));
            let what = What::Mapped { at, length: 0x2000, stack };
            let event = Event { stamp: step, origin: Origin::default(), what };
            profile.apply(&[event], Tick::of(step * 100 + 50), &mut ());
        }
        let births = profile.page_births(800, 10);
        assert_eq!(births.len(), 1);
        assert_eq!((births[0].1.records, births[0].1.bytes), ([1; SPANS], [0x2000; SPANS]));
        assert!(profile.births(800, 10).is_empty());
    }

    #[test]
    fn times_that_make_no_sense_are_within_the_session() {
        for (at, length) in [(0, 0), (u64::MAX, 1), (5, 5), (u64::MAX, u64::MAX)] {
            assert!(span(at, length) < SPANS);
        }
    }
}
