//! Sums, each once: most rows hold what they asked for, and a file of numbers is mostly repetition.

use std::collections::HashMap;

use serde::Serialize;

use super::number::Number;
use heapattach_profile::{Exact, Sum};

/// Numbers of a sum where every block is known: bytes, blocks.
const EXACT: usize = 2;
/// Numbers of a sum of samples: those two, the least that they can be, and what the interval of each
/// is made of.
const SAMPLED: usize = 12;

/// All distinct sums.
#[derive(Debug, Serialize)]
pub struct Sums {
    /// Numbers of each.
    stride: usize,
    /// One sum after the other; the first is nothing.
    numbers: Vec<Number>,
    #[serde(skip)]
    known: HashMap<Box<[u64]>, u32>,
}

impl Sums {
    /// Only the empty one. If nothing in a profile is sampled, intervals need no room.
    pub fn new(is_sampled: bool) -> Self {
        let stride = if is_sampled { SAMPLED } else { EXACT };
        let mut sums = Self { stride, numbers: Vec::new(), known: HashMap::new() };
        sums.add(&Sum::default());
        sums
    }

    /// The number of a sum.
    pub fn add(&mut self, sum: &Sum) -> u32 {
        let (exact, samples) = sum.parts();
        // Of most metrics most rows have nothing.
        if samples.is_none() && exact == Exact::default() && !self.numbers.is_empty() {
            return 0;
        }
        let numbers = &numbers(sum)[..self.stride];
        let key: [u64; SAMPLED] =
            std::array::from_fn(|at| numbers.get(at).map_or(0, |number| number.get().to_bits()));
        let key = &key[..self.stride];
        if let Some(known) = self.known.get(key) {
            return *known;
        }
        let next = u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        self.numbers.extend_from_slice(numbers);
        self.known.insert(key.into(), next);
        next
    }
}

fn numbers(sum: &Sum) -> [Number; SAMPLED] {
    let (exact, samples) = sum.parts();
    let mut numbers = [Number::default(); SAMPLED];
    let measure = sum.measure();
    numbers[0] = measure.bytes.value.into();
    numbers[1] = measure.count.value.into();
    if let Some(samples) = samples {
        let (bytes, blocks) = samples.seen_at_least();
        numbers[2] = exact.bytes.saturating_add(bytes).into();
        numbers[3] = exact.count.saturating_add(blocks).into();
        let moments = samples.moments();
        numbers[4..].iter_mut().zip(moments.iter().flatten()).for_each(|(to, &from)| {
            *to = from.into();
        });
    } else {
        (numbers[2], numbers[3]) = (numbers[0], numbers[1]);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_sum_is_kept_once() {
        let mut sums = Sums::new(false);
        assert_eq!(sums.add(&Sum::default()), 0);
        assert_eq!((sums.add(&Sum::exact(16, 2)), sums.add(&Sum::exact(32, 1))), (1, 2));
        assert_eq!(sums.add(&Sum::exact(16, 2)), 1);
        let numbers: Vec<_> = sums.numbers.iter().map(|number| number.get()).collect();
        assert_eq!(numbers, [0.0, 0.0, 32.0, 2.0, 32.0, 1.0]);
    }

    #[test]
    fn a_sum_of_samples_carries_what_its_interval_is_made_of() {
        let mut sums = Sums::new(true);
        let sum = Sum::sampled(100, 3, 1000);
        let at = sums.add(&sum) as usize * SAMPLED;
        let numbers: Vec<_> = sums.numbers[at..at + SAMPLED].iter().map(|n| n.get()).collect();
        let bytes = sum.measure().bytes.value;
        assert!((numbers[0] / bytes - 1.0).abs() < 1e-5, "{numbers:?}");
        assert_eq!(numbers[2..4], [300.0, 3.0]);
        assert!(numbers[4..].iter().all(|&number| number > 0.0), "{numbers:?}");
    }
}
