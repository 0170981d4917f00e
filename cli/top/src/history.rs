//! What rows had before: from it follows how they grow, and how much they allocate.

use std::collections::{HashMap, VecDeque};

use heapattach_profile::Estimate;
use heapattach_verdict::weight::difference;

use crate::rows::Row;
use heapattach_ledger::Thread;

/// So long is remembered.
const WINDOW_MS: u64 = 60_000;
/// Points are so far apart at least.
const APART_MS: u64 = 4000;
/// Of a shorter time no growth is told.
const LEAST_MS: u64 = 1000;
/// The allocation rate is that of so long at least, if there is as much.
const RATE_MS: u64 = 8000;
/// Names that are remembered; beyond, all is forgotten and begins anew.
const MOST: usize = 100_000;

/// The last minute.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// By site and thread.
    numbers: HashMap<(u32, Option<Thread>), u32>,
    /// The oldest first.
    points: VecDeque<Point>,
    /// The time of the last courses: a point of that time is what is there now.
    now_ms: u64,
}

#[derive(Clone, Debug)]
struct Point {
    at_ms: u64,
    /// By number, what was in use and what had been allocated by then.
    sums: Vec<[Estimate; 2]>,
}

/// What became different of a row.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Bytes a minute; `None` while it is too early to say.
    pub growth: Option<Estimate>,
    /// Bytes a second.
    pub rate: Option<Estimate>,
}

impl History {
    /// Courses of these rows, as they are at this time, in their order; and remembers them.
    pub fn courses(&mut self, at_ms: u64, rows: &[Row]) -> Vec<Course> {
        // A session that began anew, or another part of the time.
        if self.points.back().is_some_and(|last| last.at_ms > at_ms) || self.numbers.len() > MOST {
            *self = Self::default();
        }
        if self.points.is_empty() && at_ms <= WINDOW_MS {
            // When counting began there was nothing.
            self.points.push_back(Point { at_ms: 0, sums: Vec::new() });
        }
        while self.points.len() > 1 && self.points[1].at_ms + WINDOW_MS <= at_ms {
            self.points.pop_front();
        }
        self.now_ms = at_ms;
        let numbers: Vec<u32> = rows.iter().map(|row| self.number(row)).collect();
        let courses =
            rows.iter().zip(&numbers).map(|(row, number)| self.course(at_ms, row, *number));
        let courses = courses.collect();
        let is_due = self.points.back().is_none_or(|last| at_ms >= last.at_ms + APART_MS);
        if is_due {
            let mut sums = vec![[Estimate::default(); 2]; self.numbers.len()];
            for (row, number) in rows.iter().zip(numbers) {
                sums[number as usize] = [row.live, row.allocated];
            }
            self.points.push_back(Point { at_ms, sums });
        }
        courses
    }

    /// Since when something is known.
    pub fn since_ms(&self) -> Option<u64> {
        self.points.front().map(|point| point.at_ms)
    }

    /// Bytes in use of a row, the oldest first, now as the last.
    pub fn live(&self, row: &Row) -> Vec<f64> {
        let number = self.numbers.get(&(row.number, row.key.thread.clone()));
        let at = |point: &Point| {
            let sums = number.and_then(|number| point.sums.get(*number as usize));
            sums.map_or(0.0, |[live, _]| live.value)
        };
        let before = self.points.iter().filter(|point| point.at_ms < self.now_ms).map(at);
        before.chain([row.live.value]).collect()
    }

    fn number(&mut self, row: &Row) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry((row.number, row.key.thread.clone())).or_insert(next)
    }

    fn course(&self, at_ms: u64, row: &Row, number: u32) -> Course {
        // A row that was not there then had nothing.
        let at = |point: &Point| point.sums.get(number as usize).copied().unwrap_or_default();
        let since = |point: &Point| at_ms.saturating_sub(point.at_ms);
        let first = self.points.front().filter(|point| since(point) >= LEAST_MS);
        let recent = self.points.iter().rev().find(|point| since(point) >= RATE_MS);
        let recent = recent.or(first);
        let change = |point: &Point, now: Estimate, which: usize, unit_ms: f64| {
            scaled(difference(now, at(point)[which]), unit_ms / float(since(point)))
        };
        Course {
            growth: first.map(|point| change(point, row.live, 0, 60_000.0)),
            rate: recent.map(|point| change(point, row.allocated, 1, 1000.0)),
        }
    }
}

fn scaled(Estimate { value, low, high }: Estimate, by: f64) -> Estimate {
    Estimate { value: value * by, low: low * by, high: high * by }
}

#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rows::rows;
    use heapattach_ledger::{Ledger, Metric, sample};
    use heapattach_profile::Sum;
    use heapattach_verdict::site_sums::SiteNames;

    #[test]
    fn growth_and_rate_are_those_of_the_time_that_is_remembered() {
        let (mut history, mut ledger) = (History::default(), sample::ledger());
        let mut names = SiteNames::default();
        let mut rows = |ledger: &Ledger| rows(&mut names, &Arc::new(ledger.clone()), true);
        let early = history.courses(900, &rows(&ledger));
        assert!(early.iter().all(|course| course.growth.is_none()));
        history = History::default();
        let late = history.courses(90_000, &rows(&ledger));
        assert!(late.iter().all(|course| course.growth.is_none()), "nothing is known of before");
        for metric in [Metric::Live, Metric::Allocated] {
            ledger.rows[0].add(metric, &Sum::exact(60_000, 1));
        }
        let now = rows(&ledger);
        let told = history.courses(120_000, &now);
        let exact = |value| Some(Estimate { value, low: value, high: value });
        assert_eq!((told[0].growth, told[0].rate), (exact(120_000.0), exact(2000.0)));
        assert_eq!(told[1].growth, exact(0.0));
        assert_eq!(history.live(&now[0]), [64_000.0, 124_000.0]);
        let later = history.courses(400_000, &rows(&ledger));
        assert_eq!(later[0].growth, exact(0.0), "what was before the last minute is forgotten");
    }

    #[test]
    fn a_session_that_begins_anew_has_no_past() {
        let (mut history, ledger) = (History::default(), Arc::new(sample::ledger()));
        let rows = rows(&mut SiteNames::default(), &ledger, true);
        history.courses(50_000, &rows);
        let anew = history.courses(2000, &rows);
        let since = anew[0].growth.map(|growth| growth.value);
        assert_eq!((since, history.since_ms()), (Some(64_000.0 * 30.0), Some(0)));
    }
}
