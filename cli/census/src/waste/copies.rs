//! What was seen of contents that blocks have, and how often. Memory is bounded: where there are more
//! different ones than that, every second one is dropped, again and again, by its own number; what is kept
//! stands for the rest, and the error of that is told. What weighs most then is kept and stands for itself.

use std::collections::HashMap;

use crate::types::ClassId;

/// So many different contents are known at most.
const MOST: usize = 1 << 21;
/// At each halving those stand for themselves that are more than this part of all.
const HEAVY: u64 = 4096;

/// Contents that at least one block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Whether they are known as text.
    pub is_text: bool,
    /// The class of the first block that has them, and its size.
    pub class: Option<ClassId>,
    pub size: u64,
    /// Bytes in memory of the zeroes that the first block ends in, if it is far too large.
    pub tail: u64,
    /// The blocks that follow.
    pub copies: u64,
    /// Their bytes in memory.
    pub bytes: u64,
    /// One of 2^`one_in` such contents was kept, if it stands for itself no more.
    kept: Option<u32>,
}

impl Content {
    /// Of the first block.
    pub fn first(is_text: bool, class: Option<ClassId>, size: u64, tail: u64) -> Self {
        Self { is_text, class, size, tail, copies: 0, bytes: 0, kept: None }
    }

    fn waste(&self) -> u64 {
        self.bytes.saturating_add(self.tail)
    }
}

/// All that are known.
#[derive(Debug)]
pub(super) struct Copies {
    known: HashMap<u64, Content>,
    most: usize,
    /// One of 2^`halved` is known.
    halved: u32,
}

impl Default for Copies {
    fn default() -> Self {
        Self { known: HashMap::new(), most: MOST, halved: 0 }
    }
}

impl Copies {
    /// A block has contents with this number; `bytes` of it are in memory.
    pub fn add(&mut self, print: u64, bytes: u64, first: impl FnOnce() -> Content) {
        if let Some(content) = self.known.get_mut(&print) {
            content.copies += 1;
            content.bytes = content.bytes.saturating_add(bytes);
            return;
        }
        if !is_kept(print, self.halved) {
            return;
        }
        self.known.insert(print, first());
        while self.known.len() > self.most && self.halved < 60 {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let halved = self.halved;
        let all = self.known.values().map(Content::waste).fold(0, u64::saturating_add);
        for content in self.known.values_mut() {
            if content.kept.is_none() && content.waste() > all / HEAVY {
                content.kept = Some(halved);
            }
        }
        self.halved += 1;
        let halved = self.halved;
        self.known.retain(|print, content| content.kept.is_some() || is_kept(*print, halved));
    }

    /// One of so many contents was looked at.
    pub fn one_in(&self) -> u64 {
        1 << self.halved
    }

    /// All that are known, and how many each of them stands for.
    pub fn all(&self) -> impl Iterator<Item = (&Content, u64)> {
        self.known.values().map(|content| (content, 1 << content.kept.unwrap_or(self.halved)))
    }

    /// The sum of waste is within this of what is told, in 95 of 100 looks.
    pub fn margin(&self) -> f64 {
        let variance = self.all().map(|(content, stands_for)| {
            let (waste, stands_for) = (content.waste() as f64, stands_for as f64);
            waste * waste * stands_for * (stands_for - 1.0)
        });
        1.96 * variance.sum::<f64>().sqrt()
    }
}

/// Whether contents with this number are among the one of 2^`halved`.
fn is_kept(print: u64, halved: u32) -> bool {
    print.trailing_zeros() >= halved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(tail: u64) -> Content {
        Content::first(false, None, 100, tail)
    }

    fn waste(copies: &Copies) -> u64 {
        copies.all().map(|(content, stands_for)| content.waste() * stands_for).sum()
    }

    #[test]
    fn the_first_block_is_no_copy_and_each_that_follows_is() {
        let mut copies = Copies::default();
        for print in [7, 8, 7, 7, 9] {
            copies.add(print, 100, || content(40));
        }
        let mut all: Vec<_> = copies.all().map(|(one, _)| (one.copies, one.bytes)).collect();
        all.sort_unstable();
        assert_eq!(all, [(0, 0), (0, 0), (2, 200)]);
        assert_eq!((waste(&copies), copies.one_in()), (320, 1));
        assert!(copies.margin() < 0.5);
    }

    #[test]
    fn where_there_are_too_many_the_sum_is_within_its_margin_and_the_largest_are_exact() {
        let mut within = 0;
        for round in 0..40_u64 {
            let mut copies = Copies { most: 1000, ..Copies::default() };
            let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(round + 1);
            let mut prints = Vec::new();
            for _ in 0..20_000 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                prints.push(state.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1 << 63);
            }
            // One has as many copies as all others together, from the start on.
            prints.iter().for_each(|&print| {
                copies.add(5, 100, || content(0));
                copies.add(print, 100, || content(0));
            });
            prints.iter().for_each(|&print| copies.add(print, 100, || content(0)));
            assert!(copies.known.len() <= 1000 && copies.one_in() >= 16);
            let heavy = copies.known[&5];
            assert_eq!((heavy.copies, heavy.kept.is_some()), (19_999, true));
            let truth = 20_000 * 100 + 19_999 * 100;
            within += u32::from((waste(&copies).abs_diff(truth) as f64) <= copies.margin());
        }
        assert!(within >= 34, "{within} of 40");
    }
}
