//! Stacks that begin alike, as paths from a root: each step is known by a number.
//!
//! A profile has millions of stacks and tens of millions of calls in them. Most calls of a stack that
//! no other has are steps of it alone: a step that was made right after the one before it is known by its
//! place, and takes four bytes. Only where paths part there is a look-up: so there are no more of them than
//! stacks. The hash is a product, with a seed, since the target has a say in what there is to hash.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
};

/// Steps, by where they begin and what they are.
#[derive(Clone, Debug)]
pub struct Trie {
    /// What all steps are, in the order in which they were taken first; the number of where one leads to is one
    /// more than its place here.
    steps: Vec<u32>,
    /// A bit for each: whether it does not begin where the one before it led to.
    is_apart: Vec<u64>,
    /// Where these begin, in their order.
    begins: Vec<u32>,
    /// Where the other steps lead to. The root is 0.
    apart: HashMap<u64, u32, Seed>,
    /// The steps that were gone last: stacks that follow one another begin alike.
    last: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Seed(u64);

struct Product(u64);

impl Default for Trie {
    fn default() -> Self {
        let seed = Seed(RandomState::new().hash_one(0_u64));
        let (steps, is_apart, begins, last) = Default::default();
        Self { steps, is_apart, begins, apart: HashMap::with_hasher(seed), last }
    }
}

impl Trie {
    /// Where these steps lead to from the root.
    pub fn walk(&mut self, steps: impl Iterator<Item = u32>) -> u32 {
        self.walk_and_tell(steps, |_, _| {})
    }

    /// The same. Of each step that is taken for the first time it is told where it begins, in the order of the
    /// numbers of those that it leads to.
    pub fn walk_and_tell(
        &mut self,
        steps: impl Iterator<Item = u32>,
        mut first: impl FnMut(u32, u32),
    ) -> u32 {
        let (mut at, mut is_known) = (0, true);
        for (depth, step) in steps.enumerate() {
            let known = self.last.get(depth).filter(|last| is_known && last.0 == step);
            if let Some(&(_, next)) = known {
                at = next;
                continue;
            }
            // From here on it is another way than the last one.
            if is_known {
                self.last.truncate(depth);
                is_known = false;
            }
            let next = self.step(at, step, &mut first);
            self.last.push((step, next));
            at = next;
        }
        at
    }

    /// No other steps will come: frees what they would be looked up by.
    pub fn finish(&mut self) {
        self.apart = HashMap::with_hasher(*self.apart.hasher());
        self.last = Vec::new();
    }

    /// What each step is, in the order of the numbers of those that they lead to; the root is 0 and has none.
    pub fn steps(&self) -> &[u32] {
        &self.steps
    }

    /// Where each of these steps begins.
    pub fn begins(&self) -> impl ExactSizeIterator<Item = u32> {
        let mut apart = self.begins.iter();
        let places = 0..u32::try_from(self.steps.len()).unwrap_or(u32::MAX);
        places.map(move |place| {
            let begin = if self.is_apart(place) { apart.next() } else { None };
            begin.copied().unwrap_or(place)
        })
    }

    fn step(&mut self, from: u32, step: u32, first: &mut impl FnMut(u32, u32)) -> u32 {
        // Beyond the four thousand millionth all lead to the same place.
        let next = u32::try_from(self.steps.len() + 1).unwrap_or(u32::MAX);
        match self.steps.get(from as usize) {
            None => {
                first(from, step);
                self.push(step, false);
                return next;
            }
            Some(after) if *after == step && !self.is_apart(from) => return from + 1,
            Some(_) => {}
        }
        let known = *self.apart.entry(u64::from(from) << 32 | u64::from(step)).or_insert(next);
        if known == next {
            first(from, step);
            self.push(step, true);
            self.begins.push(from);
        }
        known
    }

    fn push(&mut self, step: u32, is_apart: bool) {
        let bit = self.steps.len() % 64;
        if bit == 0 {
            self.is_apart.push(0);
        }
        if let Some(bits) = self.is_apart.last_mut() {
            *bits |= u64::from(is_apart) << bit;
        }
        self.steps.push(step);
    }

    fn is_apart(&self, place: u32) -> bool {
        self.is_apart.get(place as usize / 64).is_some_and(|bits| bits >> (place % 64) & 1 == 1)
    }
}

impl BuildHasher for Seed {
    type Hasher = Product;

    fn build_hasher(&self) -> Product {
        Product(self.0)
    }
}

impl Hasher for Product {
    fn write_u64(&mut self, number: u64) {
        // The upper half has what the lower one lacks.
        let product = u128::from(number ^ self.0) * 0x9e37_79b9_7f4a_7c15;
        #[allow(clippy::cast_possible_truncation, reason = "a hash is bits without a meaning")]
        let folded = (product >> 64) as u64 ^ product as u64;
        self.0 = folded;
    }

    /// Nothing here is hashed but numbers.
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All steps: where they begin, and what they are.
    fn told(trie: &Trie) -> Vec<(u32, u32)> {
        trie.begins().zip(trie.steps().iter().copied()).collect()
    }

    #[test]
    fn what_paths_have_in_common_is_gone_once() {
        let mut trie = Trie::default();
        let paths: [&[u32]; 6] = [&[7, 8, 9], &[7, 8, 9], &[7, 5], &[], &[7], &[7, 8, 9, 9]];
        let ends = paths.map(|path| trie.walk(path.iter().copied()));
        assert_eq!(ends, [3, 3, 4, 0, 1, 5]);
        assert_eq!(told(&trie), [(0, 7), (1, 8), (2, 9), (1, 5), (3, 9)]);
    }

    #[test]
    fn a_step_of_any_number_is_told_from_one_that_begins_elsewhere() {
        let mut trie = Trie::default();
        const LAST: u32 = u32::MAX;
        let paths: [&[u32]; 6] = [&[LAST, LAST], &[5], &[LAST, 5], &[5, LAST], &[LAST, LAST], &[5]];
        let ends = paths.map(|path| trie.walk(path.iter().copied()));
        assert_eq!(ends, [2, 3, 4, 5, 2, 3]);
    }

    #[test]
    fn calls_of_one_stack_alone_need_no_look_up() {
        let mut trie = Trie::default();
        for number in 0..100_u32 {
            trie.walk((0..16).map(|depth| number * depth + depth));
        }
        assert!(trie.steps.len() > 1000 && trie.apart.len() < 100, "{}", trie.apart.len());
    }

    proptest! {
        #[test]
        fn paths_lead_to_the_same_place_if_they_are_equal(
            paths in prop::collection::vec(prop::collection::vec(0..3_u32, 0..8), 0..200),
        ) {
            let (mut trie, mut known) = (Trie::default(), HashMap::new());
            let ends: Vec<u32> = paths.iter().map(|path| trie.walk(path.iter().copied())).collect();
            let mut nodes = vec![Vec::new()];
            for (from, step) in told(&trie) {
                nodes.push([&nodes[from as usize][..], &[step]].concat());
            }
            for (path, end) in paths.iter().zip(ends) {
                prop_assert_eq!(&nodes[end as usize], path);
                prop_assert_eq!(*known.entry(path).or_insert(end), end);
            }
        }
    }
}
