//! Where chains of chunks can begin in a range that others use as well: the places from which sizes lead
//! to the top of the arena, or to a pair of fences. One pass, from the end.

use std::{collections::BTreeSet, ops::Range};

use crate::Moment;

use super::{BEFORE_IN_USE, FLAGS, HEAD, PAGE, SMALLEST};

/// So much is read at once.
const PIECE: u64 = 1 << 20;
/// No range is longer: what is noted of it is a 128th.
const LONGEST: u64 = 1 << 40;

/// The places.
pub struct Starts {
    start: u64,
    end: u64,
    /// By step of 16 bytes: whether sizes lead from there to an end.
    arrives: Vec<u64>,
    /// Where they lead.
    ends: BTreeSet<u64>,
}

impl Starts {
    /// In a range; `top` is an end wherever it lies.
    pub fn find(moment: &Moment<'_>, range: &Range<u64>, top: Option<u64>) -> Option<Self> {
        let (start, end) = (range.start.next_multiple_of(HEAD), range.end & !(HEAD - 1));
        let steps = end.checked_sub(start).filter(|length| *length <= LONGEST)? / HEAD;
        let arrives = vec![0; usize::try_from(steps / 64).ok()? + 1];
        let mut starts = Self { start, end, arrives, ends: BTreeSet::new() };
        // The word of the step that follows the present one.
        let mut after = (0, 0);
        for part in moment.present(&(start..end)).into_iter().rev() {
            let mut high = part.end & !(HEAD - 1);
            while high > part.start {
                let low = high.saturating_sub(PIECE).max(part.start.next_multiple_of(HEAD));
                if low >= high {
                    break;
                }
                let count = usize::try_from((high - low) / 8).ok()?;
                let Some(words) = moment.words(low, count) else { break };
                for (step, pair) in words.chunks_exact(2).enumerate().rev() {
                    let at = low + (step as u64) * HEAD;
                    starts.look(at, pair[1], after, top);
                    after = (at, pair[1]);
                }
                high = low;
            }
        }
        Some(starts)
    }

    /// Looks at the place `at`, whose head is `head`.
    #[inline]
    fn look(&mut self, at: u64, head: u64, (next, after): (u64, u64), top: Option<u64>) {
        let size = head & !FLAGS;
        if Some(at) == top {
            self.end_at(at);
        } else if size == HEAD {
            let after = if next == at + HEAD { after } else { 0 };
            let is_last = (at + 0x20).is_multiple_of(PAGE);
            let is_third = (at + 0x30).is_multiple_of(PAGE) && self.ends.contains(&next);
            if head & !BEFORE_IN_USE == HEAD
                && after == HEAD | BEFORE_IN_USE
                && (is_last || is_third)
            {
                self.end_at(at);
            }
        } else if head & (FLAGS - BEFORE_IN_USE) == 0
            && size >= SMALLEST
            && size.is_multiple_of(HEAD)
            && size < self.end - at
            && self.arrives(at + size)
        {
            self.set(at);
        }
    }

    fn end_at(&mut self, at: u64) {
        self.set(at);
        self.ends.insert(at);
    }

    fn bit(&self, at: u64) -> Option<(usize, u32)> {
        let step = at.checked_sub(self.start).filter(|_| at < self.end)? / HEAD;
        Some((usize::try_from(step / 64).ok()?, u32::try_from(step % 64).ok()?))
    }

    fn set(&mut self, at: u64) {
        if let Some((word, bit)) = self.bit(at) {
            self.arrives[word] |= 1 << bit;
        }
    }

    fn arrives(&self, at: u64) -> bool {
        at.is_multiple_of(HEAD)
            && self.bit(at).is_some_and(|(word, bit)| self.arrives[word] & (1 << bit) != 0)
    }

    /// The first place at or behind `at`, by steps of `step`, that a chain begins at.
    pub fn next(&self, moment: &Moment<'_>, at: u64, step: u64) -> Option<u64> {
        let is_start = |at: u64| {
            let head = moment.word(at.saturating_add(8)).unwrap_or(0);
            head & BEFORE_IN_USE != 0 && head & !FLAGS != HEAD
        };
        let mut at = at.max(self.start);
        while at < self.end {
            match self.bit(at) {
                // Nothing in 64 steps: on to the next.
                Some((word, 0)) if self.arrives[word] == 0 && step == HEAD => at += 64 * HEAD,
                _ if self.arrives(at) && is_start(at) => return Some(at),
                _ => at += step,
            }
        }
        None
    }

    /// Where the chain from a place leads.
    pub fn end_of(&self, moment: &Moment<'_>, at: u64) -> Option<u64> {
        let mut at = at;
        while !self.ends.contains(&at) {
            let size = moment.word(at.checked_add(8)?)? & !FLAGS;
            at = at.checked_add(size).filter(|&next| size >= SMALLEST && next < self.end)?;
        }
        Some(at)
    }
}
