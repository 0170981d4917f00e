//! A course of events that ends with a ledger's numbers, for formats that know events only.
//!
//! A ledger does not tell when each block came and went. The story has what it does tell right: what
//! each stack allocated, what of that was temporary, its bytes when most was in use, and its
//! bytes at the end. Between those moments the total follows the measured one as far as it rises,
//! and blocks come as fast as they did; which stack's were first is made up.

use std::io;

use super::{
    equal_blocks::{Fate, Lot},
    schedule::{self, Pace, float},
};
use heapattach_ledger::Moment;

/// An event of the story.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Time goes on, and what else was measured then.
    Moment(Box<Moment>),
    /// A block of the lot with this number is allocated.
    Add(usize),
    /// One of it is freed.
    Remove(usize),
}

/// Tells the story.
pub fn tell(
    lots: &[Lot],
    moments: &[Moment],
    tell: &mut dyn FnMut(Event) -> io::Result<()>,
) -> io::Result<()> {
    let with = |fate| (0..lots.len()).filter(|&index| lots[index].fate == fate).collect();
    let mut told = Told {
        lots,
        by_fate: Fate::ALL.map(with),
        done: vec![0; lots.len()],
        given: vec![0; lots.len()],
        tell,
    };
    let paces = schedule::paces(moments);
    let room = Room::new(lots, &paces);
    let mut before = Pace { moment: Moment::default(), risen: 0.0, fallen: 0.0, passed: 0.0 };
    for pace in paces {
        told.give_back(pace.fallen)?;
        told.pass(Fate::Temporary, &room, &before, &pace)?;
        told.pass(Fate::Short, &room, &before, &pace)?;
        told.rise(Fate::Held, pace.risen)?;
        told.rise(Fate::Peak, pace.risen)?;
        told.rise(Fate::Late, pace.fallen)?;
        (told.tell)(Event::Moment(Box::new(pace.moment.clone())))?;
        before = pace;
    }
    Ok(())
}

/// How large a block may be that comes and goes without making a new peak.
struct Room {
    peak: u64,
    /// While the peak is not yet reached.
    rising: f64,
    /// In the second half of the way from the peak to the end.
    falling: u64,
    /// Which part of the blocks came before the peak.
    before: f64,
}

impl Room {
    fn new(lots: &[Lot], paces: &[Pace]) -> Self {
        let sum = |fates: [Fate; 2]| {
            let lots = lots.iter().filter(|lot| fates.contains(&lot.fate));
            lots.fold(0_u64, |sum, lot| sum.saturating_add(lot.size.saturating_mul(lot.blocks)))
        };
        let peak = sum([Fate::Held, Fate::Peak]);
        let end = sum([Fate::Held, Fate::Late]);
        let rising = paces.iter().rfind(|pace| pace.risen < 1.0);
        let top = paces.iter().find(|pace| pace.risen >= 1.0);
        Self {
            peak,
            rising: float(peak) * (1.0 - rising.map_or(0.0, |pace| pace.risen)),
            falling: peak.saturating_sub(end) / 2,
            before: top.map_or(1.0, |pace| pace.passed),
        }
    }

    /// How many of the blocks of a lot have come and gone.
    fn passed(&self, lot: &Lot, before: &Pace, pace: &Pace) -> f64 {
        if float(lot.size) > self.rising {
            return 1.0;
        }
        if lot.size > self.falling || self.peak == 0 || self.before >= 1.0 {
            return if pace.risen >= 1.0 {
                1.0
            } else {
                pace.passed / self.before.max(pace.passed)
            };
        }
        match (before.risen < 1.0, before.fallen < 0.5 && pace.fallen < 1.0) {
            (true, _) => pace.passed,
            (false, true) => self.before,
            (false, false) => pace.passed,
        }
    }
}

/// The story so far.
struct Told<'a> {
    lots: &'a [Lot],
    /// The numbers of the lots of each fate.
    by_fate: [Vec<usize>; Fate::ALL.len()],
    /// How many blocks of each lot came.
    done: Vec<u64>,
    /// And how many went.
    given: Vec<u64>,
    tell: &'a mut dyn FnMut(Event) -> io::Result<()>,
}

impl Told<'_> {
    /// Blocks that stay come, rounded down: the total stays below the line.
    fn rise(&mut self, fate: Fate, part: f64) -> io::Result<()> {
        for &index in &self.by_fate[fate as usize] {
            let goal = share(self.lots[index].blocks, part);
            while self.done[index] < goal {
                self.done[index] += 1;
                (self.tell)(Event::Add(index))?;
            }
        }
        Ok(())
    }

    /// Blocks of the peak go, rounded up.
    fn give_back(&mut self, part: f64) -> io::Result<()> {
        for &index in &self.by_fate[Fate::Peak as usize] {
            let blocks = self.lots[index].blocks;
            let goal = blocks - share(blocks, 1.0 - part);
            while self.given[index] < goal {
                self.given[index] += 1;
                (self.tell)(Event::Remove(index))?;
            }
        }
        Ok(())
    }

    /// Blocks come and go.
    fn pass(&mut self, fate: Fate, room: &Room, before: &Pace, pace: &Pace) -> io::Result<()> {
        for &index in &self.by_fate[fate as usize] {
            let lot = &self.lots[index];
            let goal = share(lot.blocks, room.passed(lot, before, pace));
            while self.done[index] < goal {
                self.done[index] += 1;
                (self.tell)(Event::Add(index))?;
                (self.tell)(Event::Remove(index))?;
            }
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn share(blocks: u64, part: f64) -> u64 {
    if part >= 1.0 { blocks } else { (float(blocks) * part) as u64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        heaptrack::equal_blocks::{keep_below_peak, lots},
        sample::by_stack,
    };
    use heapattach_ledger::{Ledger, Metric, Row, sample};
    use heapattach_profile::Sum;

    /// Tells the story of a ledger; the peak, the end, blocks, and temporary ones.
    fn outcome(ledger: &Ledger) -> [u64; 4] {
        let mut lots: Vec<Lot> = by_stack(ledger).flat_map(|sample| lots(&sample)).collect();
        keep_below_peak(&mut lots);
        let (mut live, mut peak, mut blocks, mut temporary) = (0, 0, 0, 0);
        tell(&lots, &ledger.moments, &mut |event| {
            match event {
                Event::Add(lot) => {
                    live += lots[lot].size;
                    peak = peak.max(live);
                    blocks += 1;
                }
                Event::Remove(lot) => {
                    live -= lots[lot].size;
                    temporary += u64::from(lots[lot].fate == Fate::Temporary);
                }
                Event::Moment(_) => (),
            }
            Ok(())
        })
        .unwrap();
        [peak, live, blocks, temporary]
    }

    #[test]
    fn the_story_ends_with_the_numbers_of_the_ledger() {
        let mut ledger = sample::ledger();
        let told = [1200 * 64 + 10 * 4096 + 50 * 16, 64_000 + 40_960, 71_510, 65_100];
        assert_eq!(outcome(&ledger), told);
        // A peak in the middle, a way down, no moments at all.
        ledger.moments[9].live = 1e9;
        assert_eq!(outcome(&ledger), told);
        ledger.moments[0].live = 1e10;
        assert_eq!(outcome(&ledger), told);
        ledger.moments.clear();
        assert_eq!(outcome(&ledger), told);
    }

    #[test]
    fn large_blocks_that_go_at_once_make_no_peak() {
        let mut ledger = sample::ledger();
        ledger.rows[2].set_sums([0, 500, 500, 0, 500].map(|n| Sum::exact(100_000, n)));
        ledger.total = Row::default();
        ledger.rows.iter().for_each(|row| ledger.total.merge(row));
        let [peak, ..] = outcome(&ledger);
        assert_eq!(peak, 1200 * 64 + 10 * 4096);
    }

    #[test]
    fn other_blocks_may_be_held_at_the_end_than_at_the_peak() {
        let mut ledger = sample::ledger();
        ledger.rows.truncate(1);
        ledger.rows[0].set_sums([60, 110, 50, 50, 0].map(|bytes| Sum::exact(bytes, 1)));
        ledger.rows[0].add(Metric::Allocated, &Sum::exact(0, 1));
        ledger.total = ledger.rows[0].clone();
        // What is in use at the end is more than the peak was: then that is the peak.
        assert_eq!(outcome(&ledger), [60, 60, 2, 0]);
    }

    /// A block: its stack, its size, and whether it was held at the peak and at the end, or was
    /// temporary.
    type Block = (u32, u64, bool, bool, bool);

    fn ledger_of(blocks: &[Block]) -> Ledger {
        let mut ledger = sample::ledger();
        ledger.rows.iter_mut().for_each(|row| row.heap = Default::default());
        for &(stack, size, at_peak, at_end, temporary) in blocks {
            let held = at_peak || at_end;
            let told = [at_end, true, !at_end, at_peak, temporary && !held];
            for (metric, is) in Metric::ALL.into_iter().zip(told) {
                let more = Sum::exact(size * u64::from(is), u64::from(is));
                ledger.rows[stack as usize].add(metric, &more);
            }
        }
        ledger.total = Row::default();
        ledger.rows.iter().for_each(|row| ledger.total.merge(row));
        ledger
    }

    #[test]
    fn sums_that_leave_more_than_there_was_make_no_higher_peak() {
        let blocks = [
            (2, 0, true, true, false),
            (2, 96, false, true, false),
            (2, 4107, true, false, false),
            (2, 4012, false, false, false),
        ];
        assert_eq!(outcome(&ledger_of(&blocks))[..2], [4107, 96]);
    }

    proptest! {
        #[test]
        fn whatever_happened_can_be_told(
            blocks in prop::collection::vec(
                (0..3_u32, 0..5000_u64, any::<bool>(), any::<bool>(), any::<bool>()), 1..100),
            curve in prop::collection::vec((0.0..1e6_f64, 0.0..1e6_f64), 0..100),
        ) {
            let mut ledger = ledger_of(&blocks);
            let sum = |is: &dyn Fn(&Block) -> bool| -> u64 {
                blocks.iter().filter(|block| is(block)).map(|block| block.1).sum()
            };
            let (peak, end) = (sum(&|block| block.2), sum(&|block| block.3));
            let passing = blocks.iter().filter(|block| !block.2 && !block.3);
            // Else it was no peak.
            prop_assume!(peak >= end && passing.clone().all(|block| block.1 <= peak));
            let moment = |(at, (live, blocks)): (u64, &(f64, f64))| {
                Moment { at_ms: at * 100, live: *live, blocks: *blocks, ..Moment::default() }
            };
            ledger.moments = (0..).zip(&curve).map(moment).collect();
            let temporary = passing.filter(|block| block.4).count() as u64;
            prop_assert_eq!(outcome(&ledger)[..2].to_vec(), vec![peak, end]);
            prop_assert!(outcome(&ledger)[2].abs_diff(blocks.len() as u64) <= 3);
            prop_assert!(outcome(&ledger)[3].abs_diff(temporary) <= 3);
        }
    }
}
