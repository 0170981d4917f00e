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
    /// Of rows of one thread each, by site and thread.
    threads: HashMap<(u32, Thread), u32>,
    /// The oldest first.
    points: VecDeque<Point>,
    /// The time of what is there now: a point of that time is the same.
    now_ms: u64,
}

/// What was in use and what had been allocated by then.
#[derive(Clone, Debug, Default)]
struct Point {
    at_ms: u64,
    /// By the number of the site.
    sites: Vec<[Estimate; 2]>,
    /// By the number of site and thread.
    threads: Vec<[Estimate; 2]>,
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
    /// Remembers these rows, as they are at this time.
    pub fn take(&mut self, at_ms: u64, rows: &[Row]) {
        // A session that began anew, or another part of the time.
        if self.points.back().is_some_and(|last| last.at_ms > at_ms) || self.threads.len() > MOST {
            *self = Self::default();
        }
        if self.points.is_empty() && at_ms <= WINDOW_MS {
            // When counting began there was nothing.
            self.points.push_back(Point::default());
        }
        while self.points.len() > 1 && self.points[1].at_ms + WINDOW_MS <= at_ms {
            self.points.pop_front();
        }
        self.now_ms = at_ms;
        if self.points.back().is_none_or(|last| at_ms >= last.at_ms + APART_MS) {
            let point = self.point(at_ms, rows);
            self.points.push_back(point);
        }
    }

    fn point(&mut self, at_ms: u64, rows: &[Row]) -> Point {
        let mut point = Point { at_ms, ..Point::default() };
        for row in rows {
            let (sums, number) = match &row.key.thread {
                None => (&mut point.sites, row.number),
                Some(thread) => {
                    let next = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
                    let key = (row.number, thread.clone());
                    (&mut point.threads, *self.threads.entry(key).or_insert(next))
                }
            };
            let number = number as usize;
            if sums.len() <= number {
                sums.resize(number + 1, Default::default());
            }
            sums[number] = [row.live(), row.allocated()];
        }
        point
    }

    /// Since when something is known.
    pub fn since_ms(&self) -> Option<u64> {
        self.points.front().map(|point| point.at_ms)
    }

    /// Bytes in use of a row, the oldest first, now as the last.
    pub fn live(&self, row: &Row) -> Vec<f64> {
        let before = self.points.iter().filter(|point| point.at_ms < self.now_ms);
        before.map(|point| self.at(point, row)[0].value).chain([row.values()[0]]).collect()
    }

    /// How a row grows, and how much it allocates.
    pub fn course(&self, row: &Row) -> Course {
        let change = |point: &Point, now: Estimate, which: usize, unit_ms: f64| {
            let since = float(self.since(point));
            scaled(difference(now, self.at(point, row)[which]), unit_ms / since)
        };
        Course {
            growth: self.first().map(|point| change(point, row.live(), 0, 60_000.0)),
            rate: self.recent().map(|point| change(point, row.allocated(), 1, 1000.0)),
        }
    }

    /// By how much a row grew without the interval, in an unknown unit that is the same for all rows.
    pub fn growth_rank(&self, row: &Row) -> f64 {
        self.first().map_or(0.0, |point| row.values()[0] - self.at(point, row)[0].value)
    }

    /// How much a row allocated, in the same way.
    pub fn rate_rank(&self, row: &Row) -> f64 {
        self.recent().map_or(0.0, |point| row.values()[1] - self.at(point, row)[1].value)
    }

    /// A row that was not there then had nothing.
    fn at(&self, point: &Point, row: &Row) -> [Estimate; 2] {
        let sums = match &row.key.thread {
            None => point.sites.get(row.number as usize),
            Some(thread) => {
                let number = self.threads.get(&(row.number, thread.clone()));
                number.and_then(|number| point.threads.get(*number as usize))
            }
        };
        sums.copied().unwrap_or_default()
    }

    /// What growth is told since.
    fn first(&self) -> Option<&Point> {
        self.points.front().filter(|point| self.since(point) >= LEAST_MS)
    }

    /// What the allocation rate is told since.
    fn recent(&self) -> Option<&Point> {
        let recent = self.points.iter().rev().find(|point| self.since(point) >= RATE_MS);
        recent.or(self.first())
    }

    fn since(&self, point: &Point) -> u64 {
        self.now_ms.saturating_sub(point.at_ms)
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

    fn courses(history: &mut History, at_ms: u64, rows: &[Row]) -> Vec<Course> {
        history.take(at_ms, rows);
        rows.iter().map(|row| history.course(row)).collect()
    }

    #[test]
    fn growth_and_rate_are_those_of_the_time_that_is_remembered() {
        let (mut history, mut ledger) = (History::default(), sample::ledger());
        let mut names = SiteNames::default();
        let mut rows = |ledger: &Ledger| rows(&mut names, &Arc::new(ledger.clone()), true);
        let early = courses(&mut history, 900, &rows(&ledger));
        assert!(early.iter().all(|course| course.growth.is_none()));
        history = History::default();
        let late = courses(&mut history, 90_000, &rows(&ledger));
        assert!(late.iter().all(|course| course.growth.is_none()), "nothing is known of before");
        for metric in [Metric::Live, Metric::Allocated] {
            ledger.rows[0].add(metric, &Sum::exact(60_000, 1));
        }
        let now = rows(&ledger);
        let told = courses(&mut history, 120_000, &now);
        let exact = |value| Some(Estimate { value, low: value, high: value });
        assert_eq!((told[0].growth, told[0].rate), (exact(120_000.0), exact(2000.0)));
        assert_eq!(told[1].growth, exact(0.0));
        assert_eq!((history.growth_rank(&now[0]), history.rate_rank(&now[1])), (60_000.0, 0.0));
        assert_eq!(history.live(&now[0]), [64_000.0, 124_000.0]);
        let later = courses(&mut history, 400_000, &rows(&ledger));
        assert_eq!(later[0].growth, exact(0.0), "what was before the last minute is forgotten");
    }

    #[test]
    fn a_session_that_begins_anew_has_no_past() {
        let (mut history, ledger) = (History::default(), Arc::new(sample::ledger()));
        let rows = rows(&mut SiteNames::default(), &ledger, true);
        history.take(50_000, &rows);
        let anew = courses(&mut history, 2000, &rows);
        let since = anew[0].growth.map(|growth| growth.value);
        assert_eq!((since, history.since_ms()), (Some(64_000.0 * 30.0), Some(0)));
    }
}
