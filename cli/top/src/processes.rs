//! Processes to choose from, by how much their anonymous memory grows.

use std::collections::{HashMap, VecDeque};

/// So long is remembered, in milliseconds.
const WINDOW_MS: u64 = 60_000;
/// Of a shorter time no growth is told.
const LEAST_MS: u64 = 500;

/// A process, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Its number.
    pub pid: i32,
    /// When it began, in whatever unit: numbers are used again.
    pub began: u64,
    /// Its command line.
    pub command: String,
    /// Bytes of anonymous memory.
    pub anonymous: u64,
    /// Bytes in memory.
    pub resident: u64,
}

/// The list.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    listed: Vec<Listed>,
    before: HashMap<(i32, u64), VecDeque<(u64, u64)>>,
    growth: HashMap<i32, Option<f64>>,
    shown: Vec<usize>,
    filter: String,
    chosen: Option<i32>,
}

impl Processes {
    /// Takes all that there are at this time.
    pub fn take(&mut self, at_ms: u64, listed: Vec<Listed>) {
        let mut before = HashMap::new();
        self.growth.clear();
        for one in &listed {
            let key = (one.pid, one.began);
            let mut points = self.before.remove(&key).unwrap_or_default();
            while points.len() > 1 && points[1].0 + WINDOW_MS <= at_ms {
                points.pop_front();
            }
            self.growth.insert(one.pid, growth(&points, at_ms, one.anonymous));
            points.push_back((at_ms, one.anonymous));
            before.insert(key, points);
        }
        (self.before, self.listed) = (before, listed);
        self.list();
    }

    /// Only those with this in their command line.
    pub fn filter(&mut self, filter: &str) {
        self.filter = filter.to_lowercase();
        self.list();
    }

    /// Those that are shown, each with the bytes that it grows by a minute, if that is known.
    pub fn shown(&self) -> impl ExactSizeIterator<Item = (&Listed, Option<f64>)> {
        self.shown.iter().map(|at| {
            let one = &self.listed[*at];
            (one, self.growth.get(&one.pid).copied().flatten())
        })
    }

    /// How many are shown.
    pub fn count(&self) -> usize {
        self.shown.len()
    }

    /// Chooses one by its place.
    pub fn choose(&mut self, place: usize) {
        self.chosen = self.shown.get(place).map(|at| self.listed[*at].pid);
    }

    /// Where the one is that is chosen.
    pub fn place(&self) -> usize {
        let is_it = |at: &usize| Some(self.listed[*at].pid) == self.chosen;
        self.shown.iter().position(is_it).unwrap_or(0)
    }

    /// The one that is chosen.
    pub fn chosen(&self) -> Option<i32> {
        self.shown.get(self.place()).map(|at| self.listed[*at].pid)
    }

    fn list(&mut self) {
        let all = 0..self.listed.len();
        let fits = |at: &usize| {
            let one = &self.listed[*at];
            one.command.to_lowercase().contains(&self.filter) || one.pid.to_string() == self.filter
        };
        self.shown = all.filter(fits).collect();
        let rank = |at: usize| {
            let one = &self.listed[at];
            (self.growth.get(&one.pid).copied().flatten().unwrap_or(0.0), one.anonymous)
        };
        self.shown.sort_by(|a, b| {
            let (one, other) = (rank(*a), rank(*b));
            other.0.total_cmp(&one.0).then(other.1.cmp(&one.1)).then(a.cmp(b))
        });
    }
}

/// Bytes a minute.
#[allow(clippy::cast_precision_loss)]
fn growth(points: &VecDeque<(u64, u64)>, at_ms: u64, now: u64) -> Option<f64> {
    let (then, before) = *points.front()?;
    let time = at_ms.saturating_sub(then);
    (time >= LEAST_MS).then(|| (now as f64 - before as f64) * 60_000.0 / time as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(pid: i32, anonymous: u64) -> Listed {
        Listed { pid, anonymous, command: format!("server {pid}"), ..Listed::default() }
    }

    #[test]
    fn those_that_grow_are_above_those_that_are_large() {
        let mut processes = Processes::default();
        processes.take(0, vec![listed(1, 1 << 30), listed(2, 1 << 20)]);
        let pids = |p: &Processes| p.shown().map(|(one, _)| one.pid).collect::<Vec<_>>();
        assert_eq!(pids(&processes), [1, 2], "no growth is known yet");
        processes.take(30_000, vec![listed(1, 1 << 30), listed(2, 2 << 20), listed(3, 5)]);
        assert_eq!(pids(&processes), [2, 1, 3]);
        let growth: Vec<_> = processes.shown().map(|(_, growth)| growth).collect();
        assert_eq!(growth, [Some(f64::from(2 << 20)), Some(0.0), None]);
        processes.choose(1);
        processes.take(60_000, vec![listed(1, 2 << 30), listed(2, 2 << 20)]);
        assert_eq!((processes.place(), processes.chosen()), (0, Some(1)), "the choice moves along");
        processes.filter("SERVER 2");
        assert_eq!(pids(&processes), [2]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut processes = Processes::default();
        processes.take(0, vec![listed(1, 0)]);
        processes.take(10_000, vec![Listed { began: 9, ..listed(1, 1 << 20) }]);
        assert_eq!(processes.shown().next().unwrap().1, None);
    }
}
