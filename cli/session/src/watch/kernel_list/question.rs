//! What the watcher asks the reader of the rings: which ranges are recorded as mapped. The answer has all that
//! was recorded before the question.

use std::{
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use heapattach_profile::{Profile, Tick};

use super::{LEAST, without};

/// The place where both meet.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The stamp of the last record that was taken in.
    stamp: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Asked(Question),
    /// Records that are older than the question are being taken in.
    Heard(Question),
    Answered(Answer),
}

/// What is to be known.
#[derive(Debug, Default)]
pub struct Question {
    /// Ranges of which it is to be known whether an allocator uses them, ascending.
    pub ranges: Vec<Range<u64>>,
    /// What was unmapped later than this stamp is to be known.
    pub since: u64,
}

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The mapped ranges, ascending, and when their mapping was taken in.
    pub ranges: Vec<(Range<u64>, Tick)>,
    /// A block in each of the ranges of the question that have one.
    pub blocks: Vec<u64>,
    /// What was unmapped after the stamp of the question, ascending; `None` if that is too much to be known.
    pub unmapped: Option<Vec<Range<u64>>>,
}

impl Answer {
    /// Out of a profile.
    pub fn of(profile: &Profile, question: &Question) -> Self {
        let ranges: Vec<_> =
            profile.live_ranges().map(|(mapped, _)| (mapped.range, mapped.birth)).collect();
        let plain: Vec<_> = ranges.iter().map(|(range, _)| range.clone()).collect();
        let is_open = |range: &&Range<u64>| {
            let parts = without(range, &plain).into_iter();
            parts.map(super::length).sum::<u64>() >= LEAST
        };
        let open: Vec<&Range<u64>> = question.ranges.iter().filter(is_open).collect();
        let mut blocks = vec![None; open.len()];
        if !open.is_empty() {
            for block in profile.live_blocks() {
                let at = open.partition_point(|range| range.end <= block.at);
                if open.get(at).is_some_and(|range| range.contains(&block.at)) {
                    blocks[at] = Some(block.at);
                }
            }
        }
        let unmapped = profile.mappings().unmapped_since(question.since);
        Self { ranges, blocks: blocks.into_iter().flatten().collect(), unmapped }
    }

    /// The ranges that were mapped before a moment.
    pub fn mapped_before(&self, moment: Tick) -> Vec<Range<u64>> {
        // The count goes around.
        let is_older = |birth: Tick| i32::try_from(moment.since(birth)).is_ok_and(|age| age > 0);
        let older = self.ranges.iter().filter(|(_, birth)| is_older(*birth));
        older.map(|(range, _)| range.clone()).collect()
    }
}

impl Recorded {
    /// The stamp of the last record that was taken in.
    pub fn stamp(&self) -> u64 {
        self.stamp.load(Relaxed)
    }

    /// So far is everything taken in.
    pub fn note_stamp(&self, stamp: u64) {
        self.stamp.store(stamp, Relaxed);
    }

    /// Asks; an older question is forgotten.
    pub fn ask(&self, question: Question) {
        *self.state() = State::Asked(question);
    }

    /// The answer, once it is there.
    pub fn answer(&self) -> Option<Answer> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            State::Answered(answer) => Some(answer),
            other => {
                *state = other;
                None
            }
        }
    }

    /// The reader is about to take in all that there is: says whether [`Self::reply`] is to follow.
    pub fn hear(&self) -> bool {
        let mut state = self.state();
        if let State::Asked(question) = &mut *state {
            *state = State::Heard(std::mem::take(question));
        }
        matches!(*state, State::Heard(_))
    }

    /// It has taken that in. Another question that came meanwhile is heard later.
    pub fn reply(&self, profile: &Profile) {
        let question = match &mut *self.state() {
            State::Heard(question) => std::mem::take(question),
            State::Idle | State::Asked(_) | State::Answered(_) => return,
        };
        let answer = Answer::of(profile, &question);
        let mut state = self.state();
        if matches!(*state, State::Heard(_)) {
            *state = State::Answered(answer);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
