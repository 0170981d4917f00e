//! Call stacks as heapattach walked them, beside those of the oracle.
//!
//! A stack is right if it is one of the oracle's, frame by frame from the call of the allocator to
//! the end of the thread. One that was cut short is wrong, even if it names a reason.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{
    places::Places,
    recorded::{DEEPEST, DEPTH, OUTERMOST, RecordedStack},
    table::{Counts, Table},
};

/// A module that certainly called so often in the session, and no less, must be in a right stack:
/// each thread may be between the oracle and the allocator with one call when a session begins.
const CERTAIN: u64 = 64;

/// Why stacks are wrong, as far as it can be told from outside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause {
    /// Why the stack ends, by its own account.
    pub end: String,
    /// The last frame that is right; its unwind information was misread or is missing.
    pub from: String,
    /// The frame that should be next.
    pub wanted: String,
}

/// Stacks that are wrong for one cause.
#[derive(Clone, Debug, Default)]
pub struct Wrong {
    /// Distinct stacks.
    pub stacks: u64,
    /// Allocations.
    pub allocations: u64,
    /// One of them.
    pub example: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Allocations in all.
    pub allocations: u64,
    /// Distinct stacks.
    pub stacks: u64,
    /// Allocations from stacks that are right.
    pub right: u64,
    /// Distinct ones of them.
    pub right_stacks: u64,
    /// Frames of the longest right stack.
    pub deepest: usize,
    /// Wrong stacks that are not only too short: they lead where the program did not come from.
    pub astray: u64,
    /// What is wrong.
    pub wrong: BTreeMap<Cause, Wrong>,
    /// Modules that right stacks lead through.
    pub modules: BTreeSet<String>,
    /// Modules the oracle saw calls lead through in the session, and no right stack does.
    pub missed_modules: BTreeSet<String>,
    /// Stacks the oracle saw so many more (or, below zero, fewer) allocations from.
    pub differing: Vec<(Vec<String>, i64)>,
    /// What the oracle itself could not note.
    pub unnoted: u64,
}

/// What is known of a session beside what was recorded in it.
#[derive(Clone, Copy, Debug)]
pub struct Truth<'a> {
    /// All the process ever did.
    pub table: &'a Table,
    /// What it certainly did in the session.
    pub certain: &'a Counts,
    /// What lies where.
    pub places: &'a Places,
}

impl Comparison {
    /// Compares every stack.
    #[must_use]
    pub fn of(recorded: &[RecordedStack], truth: Truth<'_>) -> Self {
        let mut sorted: Vec<&[u64]> = truth.table.counts.keys().map(Vec::as_slice).collect();
        sorted.sort_unstable();
        let mut this = Self { unnoted: truth.table.unnoted, ..Self::default() };
        let (mut found, mut beyond) = (HashMap::new(), HashSet::new());
        for stack in recorded {
            let frames = above(&stack.frames, truth.table);
            this.allocations += stack.allocations;
            this.stacks += 1;
            if !is_right(stack, frames, &sorted) {
                this.add_wrong(stack, frames, &sorted, truth.places);
                continue;
            }
            this.right += stack.allocations;
            this.right_stacks += 1;
            this.deepest = this.deepest.max(frames.len());
            beyond.extend((stack.end == DEPTH).then_some(frames));
            *found.entry(frames).or_insert(0) += stack.allocations;
            let modules = frames.iter().filter_map(|&frame| truth.places.module(frame));
            this.modules.extend(modules.map(str::to_owned));
        }
        this.judge_modules(truth);
        this.judge_counts(&found, &beyond, truth);
        this
    }

    fn add_wrong(
        &mut self,
        stack: &RecordedStack,
        frames: &[u64],
        sorted: &[&[u64]],
        places: &Places,
    ) {
        let model = nearest(frames, sorted);
        let same = equal_frames(frames, model);
        self.astray += u64::from(same < frames.len() || stack.end == OUTERMOST);
        let name = |frame: Option<&u64>, none: &str| match frame {
            Some(&frame) => places.name(frame),
            None => none.to_owned(),
        };
        let cause = Cause {
            end: stack.end.clone(),
            from: name(same.checked_sub(1).and_then(|last| model.get(last)), "the allocator"),
            wanted: name(model.get(same), "the end"),
        };
        let wrong = self.wrong.entry(cause).or_default();
        wrong.stacks += 1;
        wrong.allocations += stack.allocations;
        if wrong.example.is_empty() {
            wrong.example = frames.iter().map(|&frame| places.name(frame)).collect();
        }
    }

    fn judge_modules(&mut self, truth: Truth<'_>) {
        let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
        for (stack, count) in truth.certain {
            let modules: BTreeSet<&str> =
                stack.iter().filter_map(|&frame| truth.places.module(frame)).collect();
            modules.into_iter().for_each(|module| *calls.entry(module).or_default() += count);
        }
        let missed = calls
            .into_iter()
            .filter(|(module, calls)| *calls >= CERTAIN && !self.modules.contains(*module));
        self.missed_modules = missed.map(|(module, _)| module.to_owned()).collect();
    }

    fn judge_counts(
        &mut self,
        found: &HashMap<&[u64], u64>,
        beyond: &HashSet<&[u64]>,
        truth: Truth<'_>,
    ) {
        // Stacks that differ only beyond the deepest frame are one to heapattach.
        let mut wanted: HashMap<&[u64], u64> = HashMap::new();
        for (stack, count) in truth.certain {
            let cut = (1..=DEEPEST).rev().filter_map(|length| stack.get(..length));
            let cut = cut.take(4).find(|cut| beyond.contains(cut));
            *wanted.entry(cut.unwrap_or(stack)).or_default() += count;
        }
        let all: HashSet<&[u64]> = found.keys().chain(wanted.keys()).copied().collect();
        for stack in all {
            let [wanted, found] = [&wanted, found].map(|of| of.get(stack).copied().unwrap_or(0));
            if wanted != found {
                let names = stack.iter().map(|&frame| truth.places.name(frame)).collect();
                self.differing.push((names, wanted.cast_signed() - found.cast_signed()));
            }
        }
    }
}

/// A stack without the oracle's own frames, which come first where it called the allocator.
fn above<'a>(frames: &'a [u64], table: &Table) -> &'a [u64] {
    let own = frames.iter().take_while(|frame| table.own.contains(frame)).count();
    &frames[own..]
}

fn is_right(stack: &RecordedStack, frames: &[u64], sorted: &[&[u64]]) -> bool {
    match &*stack.end {
        OUTERMOST => sorted.binary_search(&frames).is_ok(),
        // Only there may it be cut. Whether the last frame there is room for has a caller it need
        // not ask.
        DEPTH => {
            let next = sorted.partition_point(|other| *other < frames);
            let goes_on = sorted.get(next).is_some_and(|other| other.starts_with(frames));
            stack.frames.len() >= DEEPEST && goes_on
        }
        _ => false,
    }
}

/// The stack that shares most frames with this one, counted from the allocator.
fn nearest<'a>(frames: &[u64], sorted: &[&'a [u64]]) -> &'a [u64] {
    let at = sorted.partition_point(|other| *other < frames);
    let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
    let neighbours = neighbours.filter_map(|index| sorted.get(index).copied());
    neighbours.max_by_key(|other| equal_frames(frames, other)).unwrap_or_default()
}

fn equal_frames(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}
