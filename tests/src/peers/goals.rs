//! What was wanted, and what was got: computed from the rows of a run, and nothing else.

use serde::{Deserialize, Serialize};

use super::{
    book::Row,
    figure::Figure,
    tool::{ALL, JEMALLOC_SAMPLED, NO_FILE, SAMPLED, TCMALLOC_SAMPLED},
};
use crate::measure::Spread;

/// A goal.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Goal {
    /// What was wanted.
    pub wanted: String,
    /// What was measured: the median, and between what half of the measurements lay.
    pub got: String,
    /// Whether it was reached.
    pub verdict: Verdict,
}

/// Whether a goal was reached.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The median is within it.
    Reached,
    /// It is not, but the half of the measurements is not clear of it.
    WithinNoise,
    /// It is not.
    Missed,
    /// Nothing was measured.
    NotMeasured,
}

/// The most that is wanted.
struct Limit {
    work: &'static str,
    tool: &'static str,
    most: f64,
}

/// Works by the beginning of their names.
const LIMITS: [Limit; 6] = [
    Limit { work: "redis: set, get", tool: SAMPLED, most: 1.01 },
    Limit { work: "nginx: ", tool: SAMPLED, most: 1.01 },
    Limit { work: "sqlite3: ", tool: SAMPLED, most: 1.01 },
    Limit { work: "malloc loop, 1 thread, ", tool: SAMPLED, most: 1.03 },
    Limit { work: "malloc loop, 1 thread, ", tool: ALL, most: 1.5 },
    Limit { work: "redis: set, get", tool: ALL, most: 1.15 },
];
/// Stops are to be so many times shorter than those of debuggers.
const STOPS: f64 = 50.0;
/// Events a second, in millions, that get through without loss.
const EVENTS: f64 = 10.0;
/// What a check of a large heap may pause it beyond the time of a fork, in ms.
const PAUSE: f64 = 5.0;
/// What the check of a million blocks may take, in s.
const CHECK: f64 = 1.0;

/// All goals.
pub(super) fn judge(rows: &[Row]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for limit in &LIMITS {
        goals.extend(limited(rows, limit));
    }
    goals.extend(never_behind(rows));
    goals.push(stops(rows));
    goals.push(events(rows));
    goals.extend(pauses(rows));
    goals
}

fn find<'a>(rows: &'a [Row], work: &str, tool: &str, figure: Figure) -> Option<&'a Row> {
    rows.iter().find(|row| row.work == work && row.tool == tool && row.figure == figure.name)
}

/// One goal for each work of that kind.
fn limited(rows: &[Row], limit: &Limit) -> Vec<Goal> {
    let is_meant = |row: &&Row| {
        row.work.starts_with(limit.work)
            && row.tool == limit.tool
            && row.figure == Figure::TIMES.name
    };
    let goal = |row: &Row| {
        let wanted =
            format!("{}: {} at most {} times the plain program", row.work, row.tool, limit.most);
        at_most(wanted, row.spread, limit.most)
    };
    let goals: Vec<Goal> = rows.iter().filter(is_meant).map(goal).collect();
    if goals.is_empty() {
        let wanted = format!(
            "{}: {} at most {} times the plain program",
            limit.work, limit.tool, limit.most
        );
        return vec![Goal { wanted, got: String::new(), verdict: Verdict::NotMeasured }];
    }
    goals
}

fn at_most(wanted: String, spread: Spread, most: f64) -> Goal {
    let Spread { low, median, high, .. } = spread;
    let verdict = match () {
        () if median <= most => Verdict::Reached,
        () if low <= most => Verdict::WithinNoise,
        () => Verdict::Missed,
    };
    Goal { wanted, got: format!("{median:.3} ({low:.3} to {high:.3})"), verdict }
}

/// Beside allocators that sample, each over itself without sampling.
fn never_behind(rows: &[Row]) -> Vec<Goal> {
    let ours = rows.iter().filter(|row| row.tool == SAMPLED && row.figure == Figure::TIMES.name);
    let mut goals = Vec::new();
    for own in ours {
        let of = |tool| find(rows, &own.work, tool, Figure::OWN_TIMES);
        for peer in [JEMALLOC_SAMPLED, TCMALLOC_SAMPLED].into_iter().filter_map(of) {
            let wanted = format!("{}: {} no more than {}", own.work, own.tool, peer.tool);
            let (ours, theirs) = (own.spread, peer.spread);
            let verdict = match () {
                () if ours.median <= theirs.median => Verdict::Reached,
                () if ours.low <= theirs.high => Verdict::WithinNoise,
                () => Verdict::Missed,
            };
            let got = format!("{:.3} beside {:.3}", ours.median, theirs.median);
            goals.push(Goal { wanted, got, verdict });
        }
    }
    goals
}

fn stops(rows: &[Row]) -> Goal {
    let of = |tool: &str| {
        rows.iter().find(|row| {
            row.part == "stops" && row.tool == tool && row.figure == Figure::SILENCE_AT_ATTACH.name
        })
    };
    let wanted = format!(
        "attaching: redis stopped at most 1/{STOPS} of the time for which it gives no answer to clients while gdb brings in heaptrack"
    );
    let told = rows.iter().find(|row| {
        row.part == "stops" && row.tool == SAMPLED && row.figure == Figure::STOP_AT_ATTACH.name
    });
    let (Some(ours), Some(theirs)) = (told, of("heaptrack -p")) else {
        return Goal { wanted, got: String::new(), verdict: Verdict::NotMeasured };
    };
    let factor = theirs.spread.median / ours.spread.median;
    let verdict = if factor >= STOPS { Verdict::Reached } else { Verdict::Missed };
    let (own, peer) = (ours.spread.median, theirs.spread.median);
    Goal { wanted, got: format!("{factor:.0} times: {own:.2} ms beside {peer:.1} ms"), verdict }
}

fn events(rows: &[Row]) -> Goal {
    let wanted = format!("no record lost up to {EVENTS} million events a second on two processors");
    let of = |figure: Figure| {
        rows.iter().filter(move |row| {
            row.part == "records" && row.tool == NO_FILE && row.figure == figure.name
        })
    };
    let rate = of(Figure::EVENTS).map(|row| row.spread.median).fold(0.0, f64::max);
    let lost: f64 = of(Figure::LOST).map(|row| row.spread.max).fold(0.0, f64::max);
    if rate == 0.0 {
        return Goal { wanted, got: String::new(), verdict: Verdict::NotMeasured };
    }
    let is_reached = rate >= EVENTS && lost == 0.0;
    let verdict = if is_reached { Verdict::Reached } else { Verdict::Missed };
    Goal { wanted, got: format!("{rate:.1} million a second, at most {lost} lost"), verdict }
}

fn pauses(rows: &[Row]) -> Vec<Goal> {
    let of_checks = |figure: Figure| {
        rows.iter().filter(move |row| row.part == "pauses" && row.figure == figure.name)
    };
    let mut goals = Vec::new();
    for row in of_checks(Figure::PAUSE).filter(|row| row.tool.contains("fork")) {
        let fork = of_checks(Figure::FORK).find(|fork| fork.work == row.work);
        let Some(fork) = fork else { continue };
        let most = fork.spread.median + PAUSE;
        let wanted =
            format!("{}: paused by a check at most {most:.1} ms: a fork and {PAUSE} ms", row.work);
        goals.push(at_most(wanted, row.spread, most));
    }
    let million = of_checks(Figure::CHECK).filter(|row| row.work.starts_with("1,000,000 blocks"));
    for row in million.filter(|row| row.tool.contains("auto")) {
        goals.push(at_most(format!("{}: checked within {CHECK} s", row.work), row.spread, CHECK));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::book::{Book, Place};

    fn rows(values: &[f64]) -> Vec<Row> {
        let mut book = Book::default();
        let at = Place { part: "race", work: "sqlite3: rows", tool: SAMPLED };
        for (round, value) in (0..).zip(values) {
            book.note(at, Figure::TIMES, round, *value);
        }
        let peer = Place { tool: JEMALLOC_SAMPLED, ..at };
        book.note(peer, Figure::OWN_TIMES, 0, 1.02);
        book.rows()
    }

    fn verdicts(values: &[f64]) -> Vec<Verdict> {
        let goals = judge(&rows(values));
        let of_sqlite = goals.iter().filter(|goal| goal.wanted.starts_with("sqlite3: "));
        of_sqlite.map(|goal| goal.verdict).collect()
    }

    #[test]
    fn a_goal_is_judged_by_what_was_measured() {
        assert_eq!(verdicts(&[1.0, 1.005, 1.01]), [Verdict::Reached, Verdict::Reached]);
        assert_eq!(verdicts(&[1.0, 1.015, 1.05]), [Verdict::WithinNoise, Verdict::Reached]);
        assert_eq!(verdicts(&[1.2, 1.2, 1.2]), [Verdict::Missed, Verdict::Missed]);
    }

    #[test]
    fn what_was_not_measured_is_not_reached() {
        let goals = judge(&[]);
        assert!(goals.len() > 6 && goals.iter().all(|goal| goal.verdict == Verdict::NotMeasured));
    }
}
