//! Time, by columns: what the timeline is drawn of.

use serde::Serialize;

use super::number::Number;
use heapattach_ledger::Moment;

/// More points than a wide screen has across would be of no use.
const POINTS: usize = 4000;

/// Moments in the order of time; what could not be read is `null`.
#[derive(Debug, Default, Serialize)]
pub struct Moments {
    at_ms: Vec<u64>,
    live: Vec<Number>,
    /// The lower end of its interval.
    low: Vec<Number>,
    /// The upper end.
    high: Vec<Number>,
    allocated: Vec<Number>,
    blocks: Vec<Number>,
    mapped: Vec<u64>,
    rss: Vec<Option<u64>>,
    pss: Vec<Option<u64>>,
    anonymous: Vec<Option<u64>>,
    cgroup: Vec<Option<u64>>,
    cgroup_limit: Vec<Option<u64>>,
}

impl Moments {
    /// All of them, or so many of them that a picture looks the same.
    pub fn new(moments: &[Moment], every: u64) -> Self {
        let mut columns = Self::default();
        // Of each group the one that held most, and the last one of all: peaks and ends stay.
        let group = moments.len().div_ceil(POINTS).max(1);
        let highest = moments
            .chunks(group)
            .filter_map(|group| group.iter().reduce(|a, b| if b.live > a.live { b } else { a }));
        let last = moments.last().filter(|_| group > 1);
        let mut latest = None;
        for moment in highest.chain(last) {
            // A hostile file may jump back; a picture cannot.
            if latest.is_none_or(|at| moment.at_ms > at) {
                columns.push(moment, every);
                latest = Some(moment.at_ms);
            }
        }
        columns
    }

    fn push(&mut self, moment: &Moment, every: u64) {
        self.at_ms.push(moment.at_ms);
        let held = moment.held(every);
        self.live.push(held.value.into());
        self.low.push(held.low.into());
        self.high.push(held.high.into());
        self.allocated.push(moment.allocated.into());
        self.blocks.push(moment.blocks.into());
        self.mapped.push(moment.mapped);
        self.rss.push(moment.rss);
        self.pss.push(moment.pss);
        self.anonymous.push(moment.anonymous);
        self.cgroup.push(moment.cgroup);
        self.cgroup_limit.push(moment.cgroup_limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_moments_the_highest_and_the_last_stay() {
        let mut moments: Vec<_> =
            (0..100_000).map(|at_ms| Moment { at_ms, ..Moment::default() }).collect();
        moments[77_777].live = 5.0;
        let columns = Moments::new(&moments, 1);
        assert!(columns.at_ms.len() <= POINTS + 1, "{}", columns.at_ms.len());
        let peak = columns.live.iter().position(|live| live.get() == 5.0).unwrap();
        assert_eq!((columns.at_ms[peak], columns.at_ms.last()), (77_777, Some(&99_999)));
        assert!(columns.at_ms.is_sorted());
    }
}
