//! What is found in a ledger: the growth of all of it, and the stacks that grow.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{
    Case, Cell, Cohort, Judgement, Kind, Ladder, Trend,
    flow::{Classes, Flow},
    judge, moved,
    sizes::Sizes,
};
use heapattach_ledger::{self, Fate, Ledger, Metric};
use heapattach_profile::Sum;

/// Of all blocks so many must have been counted by size.
const MOST: f64 = 0.9;
/// Stacks that are judged: those that hold most.
const STACKS: usize = 256;
/// What holds less than this part of the growth of its sizes has no part in it.
const PART: f64 = 0.1;
/// Sizes that differ by less are one.
const SAME: f64 = 0.5;

/// Everything that can be said of growth.
#[derive(Clone, Debug, Default)]
pub struct Finding {
    /// How all of it grows, in bytes per second.
    pub trend: Trend,
    /// Seconds that were looked at.
    pub window: f64,
    /// The age of the process in the end, in seconds.
    pub uptime: f64,
    /// Stacks that are kept in mind, the worst first and of these those that hold most.
    pub stacks: Vec<StackFinding>,
    /// Why no stack could be judged; empty if they were.
    pub why_none: String,
}

/// What is said of a stack.
#[derive(Clone, Copy, Debug)]
pub struct StackFinding {
    /// Its number.
    pub stack: u32,
    /// What it holds at the end, in bytes of the heap.
    pub held: f64,
    /// What is said of it.
    pub said: Judgement,
}

/// One stack's blocks, in all threads.
#[derive(Debug, Default)]
struct Own {
    cells: Vec<Cell>,
    held: f64,
    /// The least and the greatest mean size of a cell.
    sizes: Option<(f64, f64)>,
}

impl Finding {
    /// Of a whole session in which sizes were counted.
    pub fn of(ledger: &Ledger) -> Option<Self> {
        let mut flow = Flow::of(&ledger.moments).filter(|_| ledger.about.part.is_empty())?;
        // Blocks of another allocator are not counted: their stacks would seem not to grow.
        if flow.blocks() < MOST * ledger.total.measure(Metric::Allocated).count.low {
            flow = Some(Flow::of_records(&ledger.course)).filter(|_| ledger.about.from_start)?;
        }
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let mut found = Self {
            trend: flow.trend().unwrap_or_default(),
            window: seconds(ledger.about.lasted_ms),
            uptime: seconds(ledger.about.up_ms.saturating_add(ledger.about.lasted_ms)),
            why_none: ledger.course.why_none.clone(),
            ..Self::default()
        };
        let bounds = &ledger.course.bounds_ms;
        let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else {
            return Some(found);
        };
        let window = seconds(last.saturating_sub(*first));
        let spans = bounds.len() - 1;
        let all = by_stack(&flow.sizes, &ledger.course.cells);
        let all_cohorts: Vec<(usize, Cohort)> = by_class(&flow.sizes, &ledger.course.cells)
            .into_iter()
            .map(|(class, cells)| (class, Cohort::new(spans, cells)))
            .collect();
        let mut worst: Vec<(u32, &Own)> = all.iter().map(|(stack, own)| (*stack, own)).collect();
        worst.sort_by(|(_, a), (_, b)| b.held.total_cmp(&a.held));
        for (stack, own) in worst.into_iter().take(STACKS).filter(|(_, own)| own.held > 0.0) {
            let classes = classes(&flow.sizes, ledger, stack, own);
            let ladder = Ladder::of(spans, &own.cells);
            let copied = ladder.map_or(0.0, |ladder| ladder.moved);
            let moved = moved_part(ledger, stack).max(copied);
            let cohort = match moved >= moved::MOST {
                true => Cohort::new(spans, moved::steps(spans, &own.cells, moved)),
                false => Cohort::new(spans, own.cells.iter().copied()),
            };
            let old = |age| {
                let same = all_cohorts.iter().filter(|(class, _)| classes.contains(class));
                same.map(|(_, cohort)| cohort.held(age)).sum()
            };
            let net =
                flow.net(&classes).into_iter().map(|(at, bytes)| (at - seconds(*first), bytes));
            let net: Vec<_> = net.filter(|(at, _)| *at >= 0.0).collect();
            // A stack that holds little of what grew is not why it grew.
            let grown = net.last().map_or(0.0, |(_, bytes)| *bytes);
            if own.held < PART * grown {
                continue;
            }
            let said = judge(&Case {
                cohort: &cohort,
                ladder,
                net: &net,
                asked: flow.asked(&classes),
                old: &old,
                window,
                uptime: found.uptime,
            });
            found.stacks.push(StackFinding { stack, held: own.held, said });
        }
        // The order of those alike stays.
        found.stacks.sort_by_key(|one| std::cmp::Reverse(one.said.kind));
        Some(found)
    }

    /// The worst that is said of any stack.
    pub fn kind(&self) -> Kind {
        self.stacks.first().map_or(Kind::Steady, |worst| worst.said.kind)
    }
}

fn by_stack(sizes: &Sizes, cells: &[heapattach_ledger::Cell]) -> BTreeMap<u32, Own> {
    let mut all: BTreeMap<u32, Own> = BTreeMap::new();
    for cell in cells {
        let Some((size, own)) = told(sizes, cell) else { continue };
        let stack = all.entry(cell.stack).or_default();
        if own.death.is_none() {
            stack.held += own.bytes;
        }
        let (low, high) = stack.sizes.unwrap_or((size, size));
        stack.sizes = Some((low.min(size), high.max(size)));
        stack.cells.push(own);
    }
    all
}

/// Which part of a stack's blocks `realloc` gave it for older ones.
fn moved_part(ledger: &Ledger, stack: u32) -> f64 {
    let rows = ledger.rows.iter().filter(|row| row.stack == stack);
    let [moved, all] = rows.fold([0.0; 2], |[moved, all], row| {
        [moved + row.reallocated, all + row.measure(Metric::Allocated).count.value]
    });
    if all > 0.0 { (moved / all).clamp(0.0, 1.0) } else { 0.0 }
}

fn by_class(sizes: &Sizes, cells: &[heapattach_ledger::Cell]) -> BTreeMap<usize, Vec<Cell>> {
    let mut all: BTreeMap<usize, Vec<Cell>> = BTreeMap::new();
    for (size, own) in cells.iter().filter_map(|cell| told(sizes, cell)) {
        all.entry(sizes.class_of(size)).or_default().push(own);
    }
    all
}

/// A cell as the rule knows it, with the mean size; what became of it must be known.
fn told(sizes: &Sizes, cell: &heapattach_ledger::Cell) -> Option<(f64, Cell)> {
    let death = match cell.fate {
        Fate::Held => None,
        Fate::Freed { span, .. } => Some(usize::from(span)),
        Fate::Unknown => return None,
    };
    let measure = cell.sum.measure();
    let blocks = measure.count.value;
    if blocks <= 0.0 || !blocks.is_finite() {
        return None;
    }
    let size = measure.bytes.value / blocks;
    let (bytes, squares) = (sizes.taken(size) * blocks, squares(&cell.sum));
    Some((size, Cell { birth: usize::from(cell.birth), death, blocks, squares, bytes }))
}

/// The squares of what each record stands for: its variance and itself.
fn squares(sum: &Sum) -> f64 {
    let (_, sampled) = sum.parts();
    let variance = sampled.map_or(0.0, |samples| samples.moments()[1][0]);
    sum.measure().count.value + variance.max(0.0)
}

/// The classes of what a stack allocates: one, if it always asks for the same.
fn classes(sizes: &Sizes, ledger: &Ledger, stack: u32, own: &Own) -> Classes {
    let (low, high) = own.sizes.unwrap_or_default();
    let rows = ledger.rows.iter().filter(|row| row.stack == stack);
    let mut used: Option<RangeInclusive<usize>> = None;
    for row in rows {
        let buckets = row.sizes.buckets();
        for (bucket, _) in buckets.iter().enumerate().filter(|(_, blocks)| **blocks > 0.0) {
            let (first, last) = used.map_or((bucket, bucket), RangeInclusive::into_inner);
            used = Some(first.min(bucket)..=last.max(bucket));
        }
    }
    match used {
        None => sizes.classes_of_one(low, high),
        Some(used) if used.start() == used.end() && high - low <= SAME => {
            sizes.classes_of_one(low, high)
        }
        Some(used) => sizes.classes_of(used),
    }
}
