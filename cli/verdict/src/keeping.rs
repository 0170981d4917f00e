//! What becomes of what a place allocates: more and more of it stays in use, some of it does, or it is freed.
//!
//! That more and more is kept is told by when the blocks in use were allocated: at several times, in both
//! halves of the session. What was allocated at one time and is kept holds memory; it does not grow. It is said of
//! blocks seen in a session, and within its time: whether a block is needed is not known here, and what
//! lives for longer than the session looks the same as what is never freed.

use serde::{Deserialize, Serialize};

use crate::{subject::Site, weight::share};
use heapattach_ledger::{About, Births, Metric};
use heapattach_profile::{Range, SPANS};

/// With fewer records of blocks in use nothing is said of when they came.
const FEWEST: u64 = 4;
/// In so many spans of the session some must have come.
const TIMES: usize = 3;
/// A place of which so much was freed is one that frees what it allocates.
const MOSTLY: f64 = 0.5;

/// What becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Habit {
    /// Too few blocks, or it is not known when they were allocated.
    #[default]
    Unknown,
    /// Most of what it allocated was freed.
    Frees,
    /// Most of it is in use, allocated at one time or another.
    Holds,
    /// Most of it is in use, and more and more became so in the course of the session.
    Keeps,
}

/// What became of what one place allocated in the session.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Keeping {
    /// In one word.
    pub habit: Habit,
    /// Whether no block of it was seen to be freed.
    pub is_never_freed: bool,
    /// Whether what was freed is not known at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// The part of the bytes allocated that was freed.
    pub freed: Range,
    /// Bytes in use that were allocated in the second half of the session; `None` where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recent: Option<u64>,
}

impl Keeping {
    /// Of a place.
    pub fn of(site: &Site) -> Self {
        let sum = |metric: Metric| &site.weights[metric as usize].now;
        let (allocated, freed) = (sum(Metric::Allocated), sum(Metric::Freed));
        let part = share(freed.measure().bytes, allocated.measure().bytes);
        let is_known = is_known(&site.births, sum(Metric::Live).records());
        let habit = match (allocated.records() > 0, part.value > MOSTLY) {
            (false, _) => Habit::Unknown,
            (true, true) => Habit::Frees,
            (true, false) if is_known && goes_on(&site.births) => Habit::Keeps,
            (true, false) if is_known => Habit::Holds,
            (true, false) => Habit::Unknown,
        };
        let recent =
            || site.births.bytes[SPANS / 2..].iter().fold(0, |a: u64, b| a.saturating_add(*b));
        Self {
            habit,
            is_never_freed: allocated.records() > 0 && freed.records() == 0,
            is_unknown: false,
            freed: part.into(),
            recent: is_known.then(recent),
        }
    }

    /// The same, if the session says what was freed at all.
    pub fn under(self, about: &About) -> Self {
        match about.in_use_only {
            true => Self { is_unknown: true, ..Self::default() },
            false => self,
        }
    }

    /// The part that was freed, in a word or two.
    pub fn words(&self) -> String {
        let percent = 100.0 * self.freed.value;
        match percent {
            _ if self.is_unknown => "unknown".to_owned(),
            _ if self.is_never_freed => "never".to_owned(),
            p if p >= 100.0 => "all".to_owned(),
            p if p > 99.0 => format!("{:.1} %", p.min(99.9)),
            p => format!("{p:.0} %"),
        }
    }
}

/// Whether these are all blocks in use, or nearly.
fn is_known(births: &Births, live: u64) -> bool {
    let told = births.all_records();
    told > 0 && told.saturating_mul(10) >= live.saturating_mul(9)
}

/// Whether blocks came at several times, in both halves.
pub fn goes_on(births: &Births) -> bool {
    let came = |spans: &[u32]| spans.iter().filter(|&&records| records > 0).count();
    let (first, second) = births.records.split_at(SPANS / 2);
    let [first, second] = [came(first), came(second)];
    births.all_records() >= FEWEST && first > 0 && second > 0 && first + second >= TIMES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::Weight;
    use heapattach_profile::Sum;

    fn site(allocated: u64, freed: u64, records: [u32; SPANS]) -> Site {
        let mut site = Site::default();
        for (metric, blocks) in [
            (Metric::Allocated, allocated),
            (Metric::Freed, freed),
            (Metric::Live, allocated - freed),
        ] {
            let now = Sum::exact(100, blocks);
            site.weights[metric as usize] = Weight { now, ..Weight::default() };
        }
        site.births = Births { records, bytes: records.map(|blocks| u64::from(blocks) * 100) };
        site
    }

    #[test]
    fn what_goes_on_coming_and_stays_is_kept() {
        let keeping = Keeping::of(&site(8, 0, [1; SPANS]));
        assert_eq!((keeping.habit, keeping.words().as_str()), (Habit::Keeps, "never"));
        assert_eq!(keeping.recent, Some(400));
        let some = Keeping::of(&site(12, 4, [1; SPANS]));
        assert_eq!((some.habit, some.words().as_str()), (Habit::Keeps, "33 %"));
    }

    #[test]
    fn what_came_at_one_time_is_held() {
        let keeping = Keeping::of(&site(8, 0, [8, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!((keeping.habit, keeping.recent), (Habit::Holds, Some(0)));
        let twice = Keeping::of(&site(8, 0, [4, 0, 0, 0, 4, 0, 0, 0]));
        assert_eq!(twice.habit, Habit::Holds);
        let one = Keeping::of(&site(1, 0, [0, 0, 0, 0, 0, 1, 0, 0]));
        assert_eq!((one.habit, one.recent), (Habit::Holds, Some(100)));
    }

    #[test]
    fn what_is_mostly_freed_is_not_kept_whatever_is_in_use_of_it() {
        let keeping = Keeping::of(&site(10_000, 9_992, [1; SPANS]));
        assert_eq!((keeping.habit, keeping.words().as_str()), (Habit::Frees, "99.9 %"));
    }

    #[test]
    fn nothing_is_said_where_births_are_not_known() {
        let keeping = Keeping::of(&site(100, 0, [0; SPANS]));
        assert_eq!((keeping.habit, keeping.recent), (Habit::Unknown, None));
        let some = Keeping::of(&site(100, 0, [1; SPANS]));
        assert_eq!(some.habit, Habit::Unknown, "of 92 blocks it is not known");
    }
}
