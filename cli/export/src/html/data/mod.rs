//! What the script works on: tables that refer to one another by index.

mod rows;

use std::{borrow::Cow, collections::HashMap, panic, thread};

use serde::Serialize;

use super::{
    about::Whose,
    calls::Calls,
    moments::Moments,
    number::Number,
    source::{Excerpt, Reader, excerpts},
    sums::Sums,
    verdict::Verdict,
    windows::Windows,
};
use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_profile::{Estimate, Unseen};
use rows::Rows;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Data {
    now: Side,
    /// What `now` is compared with.
    base: Option<Side>,
    /// Of `now`; none of a comparison.
    verdict: Option<Verdict>,
    tree: Calls,
    threads: Vec<String>,
    sums: Sums,
    /// Innermost node, cause, thread; what `now` asked for, then what `base` did.
    rows: Rows,
    windows: Windows,
    /// Of functions that have much of the memory, as far as their files are there.
    sources: Vec<Excerpt>,
    /// Of a session that goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<Live>,
}

/// How it is with a session that is shown while it goes on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Live {
    /// Whether it has come to its end.
    pub is_over: bool,
}

/// What belongs to one of the profiles alone.
#[derive(Debug, Serialize)]
struct Side {
    about: Whose,
    /// As in the rows.
    total: Vec<u64>,
    peak: [Number; 3],
    /// Bytes and blocks that may be in any sum without a sample of them.
    unseen: [Number; 2],
    moments: Moments,
    /// Blocks, and the ends of their interval.
    sizes: Vec<[Number; 3]>,
    /// The same by lifetime.
    lifetimes: Vec<[Number; 3]>,
}

/// What tells rows apart: node, cause, thread.
type Key = (u32, u32, u32);

impl Data {
    /// Of a profile, and of the one it is compared with; `read` reads source files.
    pub fn new(ledger: &Ledger, base: Option<&Ledger>, read: Reader<'_>) -> Self {
        if base.is_some() {
            return Self::without_verdict(ledger, base, read);
        }
        // The verdict needs nothing of the rest and takes as long. Where no thread can be had this one makes it.
        thread::scope(|scope| {
            let other = thread::Builder::new().spawn_scoped(scope, || Verdict::new(ledger));
            let data = Self::without_verdict(ledger, base, read);
            let verdict = match other {
                Ok(other) => other.join().unwrap_or_else(|panic| panic::resume_unwind(panic)),
                Err(_) => Verdict::new(ledger),
            };
            Self { verdict: Some(verdict), ..data }
        })
    }

    fn without_verdict(ledger: &Ledger, base: Option<&Ledger>, read: Reader<'_>) -> Self {
        let sides: Vec<&Ledger> = std::iter::once(ledger).chain(base).collect();
        let mut rows = sides.iter().flat_map(|ledger| ledger.rows.iter().chain([&ledger.total]));
        // What is known block by block may have unknown neighbours.
        let is_sampled =
            |row: &Row| row.heap.is_sampled() || row.heap.unseen() != Unseen::default();
        let mut sums = Sums::new(rows.any(is_sampled));
        let mut tree = Calls::new(ledger, base);
        let mut threads = Threads::default();
        // By what tells them apart; those of this profile first, in their order.
        let mut candidates = Vec::new();
        let mut keyed: Vec<(Key, usize, &Row)> = Vec::new();
        for (side, ledger) in sides.iter().enumerate() {
            let places = tree.places(ledger);
            if side == 0 {
                candidates = tree.candidates(ledger, &places);
            }
            let mut known = HashMap::new();
            for row in &ledger.rows {
                let Some(stack) = ledger.stacks.get(row.stack) else { continue };
                let (node, cause) = tree.stack(&places, &stack);
                let thread = known.entry(row.thread);
                let thread = *thread
                    .or_insert_with_key(|thread| threads.number(ledger, *thread, base.is_some()));
                keyed.push(((node, cause, thread), side, row));
            }
        }
        keyed.sort_by_key(|(key, side, _)| (*key, *side));
        let groups = || keyed.chunk_by(|one, other| one.0 == other.0);
        let windows = match base {
            Some(_) => Windows::none("this page compares two recordings"),
            None => Windows::of_no_cells(&ledger.course).unwrap_or_else(|| {
                let of = |row: &Row| (row.stack, row.thread);
                let places = groups().enumerate();
                let places =
                    places.flat_map(|(at, group)| group.iter().map(move |(.., row)| (of(row), at)));
                Windows::new(&ledger.course, &places.collect(), &mut sums)
            }),
        };
        let mut rows = Rows::new(sides.len(), groups().count());
        for group in groups() {
            let (node, cause, thread) = group[0].0;
            rows.begin([node, cause, thread]);
            for side in 0..sides.len() {
                let own = group.iter().filter(|(_, of, _)| *of == side).map(|(.., row)| *row);
                let row = merged(own);
                rows.extend(amounts(&row, &mut sums), [row.mapped, row.mapped_live]);
            }
        }
        drop(keyed);
        tree.finish();
        let now = Side::new(ledger, &mut sums);
        let base = base.map(|base| Side::new(base, &mut sums));
        // Lines of two builds are not those of one file.
        let sources = if base.is_none() { excerpts(candidates, read) } else { Vec::new() };
        let threads = threads.names;
        Self { now, base, verdict: None, sources, tree, threads, sums, rows, windows, live: None }
    }
}

/// Most rows stand alone.
fn merged<'a>(mut rows: impl Iterator<Item = &'a Row>) -> Cow<'a, Row> {
    match (rows.next(), rows.next()) {
        (Some(row), None) => Cow::Borrowed(row),
        (first, second) => {
            let mut sum = Row::default();
            first.into_iter().chain(second).chain(rows).for_each(|row| sum.merge(row));
            Cow::Owned(sum)
        }
    }
}

/// The numbers of its sums.
fn amounts(row: &Row, sums: &mut Sums) -> [u32; Metric::ALL.len()] {
    Metric::ALL.map(|metric| sums.add(&row.sum(metric)))
}

fn numbers(Estimate { value, low, high }: Estimate) -> [Number; 3] {
    [value, low, high].map(Number::from)
}

#[derive(Default)]
struct Threads {
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl Threads {
    /// Threads of two processes are the same if they have the same name.
    fn number(&mut self, ledger: &Ledger, thread: u32, is_compared: bool) -> u32 {
        let name = match ledger.threads.get(thread as usize) {
            Some(thread) if is_compared && !thread.name.is_empty() => thread.name.clone(),
            Some(thread) if thread.tid != 0 => format!("{} ({})", thread.name, thread.tid),
            _ => "not told apart".to_owned(),
        };
        let next = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.known.entry(name.clone()).or_insert_with(|| {
            self.names.push(name);
            next
        })
    }
}

impl Side {
    fn new(ledger: &Ledger, sums: &mut Sums) -> Self {
        let total = amounts(&ledger.total, sums).map(u64::from).into_iter();
        let total = total.chain([ledger.total.mapped, ledger.total.mapped_live]).collect();
        Self {
            about: Whose::new(&ledger.about),
            total,
            peak: numbers(ledger.peak),
            unseen: ledger.total.heap.unseen().parts().map(Number::from),
            moments: Moments::new(&ledger.moments, ledger.about.every),
            sizes: heapattach_ledger::sizes(ledger).into_iter().map(numbers).collect(),
            lifetimes: heapattach_ledger::lifetimes(ledger).into_iter().map(numbers).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn rows_of_both_profiles_stand_side_by_side() {
        let now = sample::ledger();
        let mut base = sample::ledger();
        base.rows.truncate(2);
        let data = Data::new(&now, Some(&base), &mut |_| None);
        let rows: Vec<Vec<u64>> = data.rows.iter().map(|row| row.numbers().collect()).collect();
        assert_eq!(rows.len(), 3);
        let (kept, fresh) = (&rows[0], &rows[2]);
        assert_eq!(kept[3..10], kept[10..17]);
        assert_eq!(fresh[10..17], [0; 7]);
    }
}
