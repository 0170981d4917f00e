//! The part of a session that is asked for: what happened in a window of time, and of that the blocks
//! of some age.
//!
//! The age of a block is how long before the end of the window it was allocated. So blocks of some
//! age are those that were born in some time, and all that is told of them - that they were
//! allocated, that they were freed by now - is that of a program which asked for nothing else. Pages
//! are the same, but in recordings of older versions: these do not tell which of them an `munmap` takes away.

use std::{ops::Range, time::Duration};

use heapattach_ledger::{Ledger, Metric};
use heapattach_profile::{Change, Tick, micros, ticks};
use heapattach_text::quantity;

/// What is asked for; nothing of it, and it is all of the session.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// What happened then; blocks allocated earlier are left out.
    pub window: Option<Range<Duration>>,
    /// Only blocks at least and less than so old at its end.
    pub ages: Option<Range<Duration>>,
    /// Whether it is to be told how it came about, span by span.
    pub with_course: bool,
}

/// When blocks of a part were born, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Births(Range<u64>);

impl Part {
    /// When its blocks were born, if that is all the same except for the window; `end` is the end of
    /// the time that is looked at.
    pub fn births(&self, end: u64) -> Option<Births> {
        let Range { start: least, end: most } = self.ages.clone()?;
        // A block of just the age that both ends name belongs to one of them.
        let before = |age: Duration| end.saturating_sub(ticks(age)).saturating_add(1);
        let from = if most == Duration::MAX { 0 } else { before(most) };
        // What came in while the last records were read is the youngest of all.
        let to = if least.is_zero() { u64::MAX } else { before(least) };
        Some(Births(from..to))
    }

    /// In words, for a reader who sees nothing else.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let longest = Duration::from_secs(u64::from(u32::MAX));
        if let Some(Range { start, end }) = &self.window {
            let from = quantity::clock(*start);
            words.push(match (start.is_zero(), *end >= longest) {
                (_, true) => format!("from {from} after the attach: blocks allocated since then"),
                (true, _) => format!("until {} after the attach", quantity::clock(*end)),
                _ => format!(
                    "from {from} to {} after the attach: blocks allocated in that time",
                    quantity::clock(*end)
                ),
            });
        }
        if let Some(Range { start, end }) = &self.ages {
            let (least, most) = (quantity::clock(*start), quantity::clock(*end));
            words.push(match (start.is_zero(), *end == Duration::MAX) {
                (_, true) => {
                    format!("blocks allocated and pages mapped {least} or longer before the end")
                }
                (true, _) => {
                    format!("blocks allocated and pages mapped less than {most} before the end")
                }
                _ => {
                    format!("blocks allocated and pages mapped {least} to {most} before the end")
                }
            });
        }
        words
    }
}

impl Births {
    /// Whether a change is of one of these blocks.
    pub fn contain(&self, now: u64, change: &Change) -> bool {
        birth(now, change).is_some_and(|birth| self.0.contains(&birth))
    }

    /// The same, where blocks born before `known` are only known as sums: of these it has all or, if
    /// that is what is asked for, none. And what is to be said of it.
    pub fn beyond(&self, known: u64) -> (Self, Option<String>) {
        if self.0.start >= known {
            return (self.clone(), None);
        }
        let is_right = self.0.start == 0 && self.0.end >= known;
        let note = (!is_right).then(|| {
            let time = quantity::clock(Duration::from_micros(micros(known)));
            format!(
                "which of the blocks of the first {time} are how old: what happened then had to \
                 make room for sums (--max-size), and they are all counted here"
            )
        });
        (Self(0..self.0.end), note)
    }

    /// Whether blocks born before `known` are among them.
    pub fn reach_before(&self, known: u64) -> bool {
        self.0.start < known
    }

    /// What is to be said of a session that is no older than `end`.
    pub fn note(&self, end: u64) -> Option<String> {
        let time = quantity::clock(Duration::from_micros(micros(end)));
        let is_none = self.0.end <= 1;
        is_none.then(|| format!("blocks of that age: the session lasted for {time} only"))
    }
}

/// When the block, or the pages, of a change came; `None` if that is not known.
pub fn birth(now: u64, change: &Change) -> Option<u64> {
    match *change {
        Change::Allocated { .. } | Change::Mapped { .. } => Some(now),
        Change::Freed { birth, .. } | Change::Restored { birth, .. } => Some(before(now, birth)),
        Change::Unmapped { birth, .. } | Change::Remained { birth, .. } => {
            Some(before(now, birth?))
        }
    }
}

/// The last time before `now` that a tick stands for.
pub fn before(now: u64, tick: Tick) -> u64 {
    now.saturating_sub(Tick::of(now).since(tick).into())
}

/// Pages are told with their ages from this version on.
pub const WITH_PAGES: u32 = 5;

/// Takes out what has no age.
pub fn without_pages(ledger: &mut Ledger) {
    let had_pages = ledger.total.mapped > 0;
    for row in ledger.rows.iter_mut().chain([&mut ledger.total]) {
        (row.mapped, row.mapped_live) = (0, 0);
    }
    ledger.rows.retain(|row| row.sum(Metric::Allocated).records() > 0);
    if had_pages {
        let note = "pages that were mapped: this recording does not tell their ages, and they are left out";
        ledger.about.blind.push(note.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_profile::{Kind, RowId};

    fn part(least: u64, most: u64) -> Part {
        let ages = Duration::from_secs(least)..Duration::from_secs(most);
        Part { ages: Some(ages), ..Part::default() }
    }

    #[test]
    fn pages_are_of_the_age_of_their_mapping_where_that_is_told() {
        let (end, row, bytes) = (ticks(Duration::from_secs(100)), RowId(1), 4096);
        let young = part(0, 30).births(end).unwrap();
        let at = |seconds| ticks(Duration::from_secs(seconds));
        let mapped = Change::Mapped { row, bytes, kept: true };
        let gone = |birth| Change::Unmapped { row, bytes, birth };
        assert!(young.contain(at(80), &mapped) && !young.contain(at(60), &mapped));
        let [of_80, of_60] = [80, 60].map(|birth| gone(Some(Tick::of(at(birth)))));
        assert!(young.contain(at(90), &of_80) && !young.contain(at(90), &of_60));
        assert!(!young.contain(at(90), &gone(None)));
    }

    #[test]
    fn every_age_belongs_to_one_of_two_parts_that_meet() {
        let end = ticks(Duration::from_secs(100));
        let older = Part { ages: Some(Duration::from_secs(30)..Duration::MAX), ..Part::default() };
        let (older, younger) = (older.births(end).unwrap(), part(0, 30).births(end).unwrap());
        for birth in [0, 1, ticks(Duration::from_secs(70)), end, end + 9] {
            for birth in [birth, birth + 1] {
                let kind = Kind::new(RowId(0), 8, 1);
                let change = Change::Allocated { kind, kept: true, exchanged: false };
                let of = [&older, &younger].map(|births| births.contain(birth, &change));
                assert_ne!(of[0], of[1], "{birth}");
            }
        }
        assert!(part(200, 300).births(end).unwrap().note(end).is_some());
    }

    #[test]
    fn a_block_keeps_its_birth_when_ticks_have_gone_around() {
        let now = (7 << 32) + 5;
        let kind = Kind::new(RowId(0), 8, 1);
        let freed = Change::Freed { kind, birth: Tick::of(now - 100) };
        assert_eq!(birth(now, &freed), Some(now - 100));
    }

    #[test]
    fn what_is_only_known_as_sums_is_counted_whole_and_that_is_said() {
        let births = |from, to| Births(from..to);
        assert_eq!(births(50, 90).beyond(50), (births(50, 90), None));
        assert_eq!(births(0, 90).beyond(50), (births(0, 90), None), "all of the older ones");
        assert!(births(20, 90).beyond(50).1.is_some());
        assert!(births(0, 20).beyond(50).1.is_some());
    }

    #[test]
    fn a_part_is_told_in_words() {
        assert_eq!(
            part(30, 90).words(),
            ["blocks allocated and pages mapped 30.0 s to 90.0 s before the end"]
        );
        assert!(Part::default().words().is_empty());
    }
}
