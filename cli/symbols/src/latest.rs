//! What was last said of each address, by ranges.

use std::{collections::BTreeMap, ops::Range};

/// Values by address; a later range covers what it overlaps of earlier ones.
#[derive(Clone, Debug)]
pub struct Latest<T> {
    /// By first address; they never overlap.
    pieces: BTreeMap<u64, Piece<T>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece<T> {
    end: u64,
    value: T,
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self { pieces: BTreeMap::new() }
    }
}

impl<T: Clone + PartialEq> Latest<T> {
    /// How many pieces there are.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether just that was said of just this range.
    pub fn has(&self, range: &Range<u64>, value: &T) -> bool {
        let piece = self.pieces.get(&range.start);
        piece.is_some_and(|piece| piece.end == range.end && piece.value == *value)
    }

    /// Says so of a range.
    pub fn insert(&mut self, range: Range<u64>, value: T) {
        if range.start < range.end {
            self.clear(range.clone());
            self.pieces.insert(range.start, Piece { end: range.end, value });
        }
    }

    /// What was last said of `address`.
    pub fn find(&self, address: u64) -> Option<&T> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        (address < piece.end).then_some(&piece.value)
    }

    /// All that is known, by range.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &T)> {
        self.pieces.iter().map(|(&start, piece)| (start..piece.end, &piece.value))
    }

    /// Forgets what was said of `range`; what sticks out of it stays.
    fn clear(&mut self, range: Range<u64>) {
        let below = self.pieces.range(..range.end).rev();
        let overlapping = below.take_while(|(_, piece)| piece.end > range.start);
        let overlapping: Vec<u64> = overlapping.map(|(start, _)| *start).collect();
        for start in overlapping {
            let Some(old) = self.pieces.remove(&start) else { continue };
            if start < range.start {
                self.pieces.insert(start, Piece { end: range.start, value: old.value.clone() });
            }
            if old.end > range.end {
                self.pieces.insert(range.end, old);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_address_has_what_was_last_said_of_it(
            ranges in proptest::collection::vec((0_u64..40, 0_u64..10), 0..30),
        ) {
            let (mut latest, mut plain) = (Latest::default(), [None; 64]);
            for (number, (start, size)) in ranges.into_iter().enumerate() {
                latest.insert(start..start + size, number);
                for address in start..start + size {
                    plain[usize::try_from(address).unwrap()] = Some(number);
                }
                assert!(size == 0 || latest.has(&(start..start + size), &number));
            }
            for (address, expected) in (0..).zip(plain) {
                assert_eq!(latest.find(address).copied(), expected, "{address}");
            }
        }
    }
}
