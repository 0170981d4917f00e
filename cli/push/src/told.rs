//! What was told already: by which sums since the attach become sums of a window.
//!
//! Backends that subtract do so in ways of their own, or not at all, so what was allocated is sent as it came between
//! two sendings. A stack is known by its addresses: numbers of stacks are others each time that a recording is read.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash, Hasher, RandomState},
};

use heapattach_export::{Place, StackRow};
use heapattach_ledger::Ledger;

/// The columns of [`heapattach_export::TYPES`] that only grow.
const GROWING: [usize; 3] = [0, 1, 4];

/// Sums by stack.
#[derive(Debug, Default)]
pub struct Told {
    // With keys of this process's: a target cannot have two of its stacks taken for one.
    keys: [RandomState; 2],
    sums: HashMap<Key, [u64; 3]>,
    all: [u64; 3],
}

type Key = [u64; 2];

impl Told {
    /// The rows with what came since the last time instead of all since the attach. Over all times they add up to the
    /// most that each sum has been.
    pub fn since(&mut self, ledger: &Ledger, rows: &[StackRow]) -> Vec<StackRow> {
        let mut merged: Vec<(Key, StackRow)> = Vec::with_capacity(rows.len());
        let mut places = HashMap::new();
        for row in rows {
            let key = self.key(ledger, row.place);
            match places.get(&key) {
                Some(&at) => {
                    let (_, known): &mut (Key, StackRow) = &mut merged[at];
                    known
                        .values
                        .iter_mut()
                        .zip(&row.values)
                        .for_each(|(a, b)| *a = a.saturating_add(*b));
                }
                None => {
                    places.insert(key, merged.len());
                    merged.push((key, row.clone()));
                }
            }
        }
        let mut excess = self.excess(&merged);
        let mut out = Vec::with_capacity(merged.len());
        for (key, mut row) in merged {
            let told = self.sums.entry(key).or_default();
            for (slot, column) in GROWING.into_iter().enumerate() {
                let Some(value) = row.values.get_mut(column) else { continue };
                let mut more = value.saturating_sub(told[slot]);
                told[slot] = told[slot].max(*value);
                if row.place == Place::NotKept {
                    let less = excess[slot].min(more);
                    (more, excess[slot]) = (more - less, 0);
                }
                self.all[slot] = self.all[slot].saturating_add(more);
                *value = more;
            }
            out.push(row);
        }
        out
    }

    /// By how much the stacks say more than all of them together: what moved to those that are not kept was told.
    fn excess(&self, rows: &[(Key, StackRow)]) -> [u64; 3] {
        let mut excess = [0; 3];
        for (slot, column) in GROWING.into_iter().enumerate() {
            let (mut now, mut more) = (0_u64, 0_u64);
            for (key, row) in rows {
                let value = row.values.get(column).copied().unwrap_or(0);
                let told = self.sums.get(key).map_or(0, |told| told[slot]);
                now = now.saturating_add(value);
                more = more.saturating_add(value.saturating_sub(told));
            }
            excess[slot] = self.all[slot].saturating_add(more).saturating_sub(now);
        }
        excess
    }

    fn key(&self, ledger: &Ledger, place: Place) -> Key {
        let stack = match place {
            Place::NotKept => return [0, 0],
            Place::Other => return [0, 1],
            Place::Stack(stack) => stack,
        };
        let locations = ledger.stacks.get(stack).map_or(&[][..], |stack| stack.locations);
        [0, 1].map(|at| {
            let mut hasher = self.keys[at].build_hasher();
            for &location in locations {
                let location = &ledger.locations[location as usize];
                location.address.hash(&mut hasher);
                if location.address == 0 {
                    // Not code: what pages or cut stacks stand under.
                    let line = location.lines.first();
                    line.map(|line| &ledger.functions[line.function as usize].name)
                        .hash(&mut hasher);
                }
            }
            ledger.is_mapping(stack).hash(&mut hasher);
            hasher.finish()
        })
    }
}

#[cfg(test)]
mod tests {
    use heapattach_export::rows;
    use heapattach_ledger::{EndReason, sample};
    use proptest::prelude::*;

    use super::*;

    fn row(place: Place, alloc: u64) -> StackRow {
        StackRow { place, values: vec![alloc, 10 * alloc, 1, 10, 0, 0] }
    }

    #[test]
    fn the_first_time_all_is_told_and_then_what_came() {
        let (ledger, mut told) = (sample::ledger(), Told::default());
        let all = rows(&ledger);
        assert_eq!(told.since(&ledger, &all), all);
        let again = told.since(&ledger, &all);
        assert!(again.iter().all(|row| row.values[..2] == [0, 0]));
        // What is in use is told as it is.
        assert_eq!(again[0].values[2..4], all[0].values[2..4]);
    }

    #[test]
    fn a_stack_is_known_again_by_another_number() {
        let (ledger, mut told) = (sample::ledger(), Told::default());
        told.since(&ledger, &[row(Place::Stack(0), 5), row(Place::Stack(1), 7)]);
        let mut other = ledger.clone();
        let stacks: Vec<_> =
            ledger.stacks.iter().map(|one| (one.locations.to_vec(), one.cause)).collect();
        other.stacks = Default::default();
        for (locations, cause) in [&stacks[1], &stacks[0]] {
            other.stacks.push(locations, EndReason::Outermost, *cause);
        }
        let more = told.since(&other, &[row(Place::Stack(0), 8), row(Place::Stack(1), 5)]);
        assert_eq!((more[0].values[0], more[1].values[0]), (1, 0));
    }

    #[test]
    fn what_moves_to_the_stacks_that_are_not_kept_is_not_told_twice() {
        let (ledger, mut told) = (sample::ledger(), Told::default());
        told.since(&ledger, &[row(Place::Stack(0), 5), row(Place::Stack(1), 7)]);
        let more = told.since(&ledger, &[row(Place::Stack(0), 6), row(Place::NotKept, 8)]);
        assert_eq!((more[0].values[0], more[1].values[0]), (1, 1));
    }

    proptest! {
        #[test]
        fn the_sum_of_all_windows_is_the_last_sum(steps in prop::collection::vec((0_u64..3, 0_u64..100), 1..40)) {
            let (ledger, mut told) = (sample::ledger(), Told::default());
            let (mut now, mut sum) = ([0_u64; 3], [0_u64; 3]);
            for (stack, more) in steps {
                now[usize::try_from(stack).unwrap()] += more;
                let rows: Vec<_> = (0..3_u32).map(|at| row(Place::Stack(at), now[at as usize])).collect();
                for (at, row) in told.since(&ledger, &rows).iter().enumerate() {
                    sum[at] += row.values[0];
                }
            }
            prop_assert_eq!(sum, now);
        }
    }
}
