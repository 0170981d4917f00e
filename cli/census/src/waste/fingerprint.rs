//! A number for the bytes of a block: equal for equal bytes, different for others but for a chance of one
//! in 2^64 a pair.
//!
//! It is keyed at random, so that bytes of the target cannot be made to agree on purpose. Zeroes are
//! skipped, and what is not zero counts with its place: memory that was never touched costs no time.

use std::hash::{BuildHasher, RandomState};

/// Bytes that are looked at together; both halves of a product of 128 bits depend on all of them.
const PIECE: usize = 16;
/// The same of what is skipped at once.
const SKIPPED: usize = 64;

/// What makes the numbers of one look different from those of every other.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    first: u64,
    second: u64,
    /// Odd: different places stay different.
    place: u64,
}

impl Keys {
    /// Those of a new look.
    pub fn random() -> Self {
        let random = RandomState::new();
        let [first, second, place] = [1_u64, 2, 3].map(|number| random.hash_one(number));
        Self { first, second, place: place | 1 }
    }
}

/// A number that grows with the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint {
    keys: Keys,
    state: u64,
}

impl Fingerprint {
    /// Of nothing yet.
    pub fn new(keys: Keys) -> Self {
        Self { keys, state: keys.second }
    }

    /// Adds bytes that lie at an offset, a multiple of 16. Answers how many there are up to the last
    /// that is not zero.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) -> usize {
        let mut end = 0;
        for (number, piece) in bytes.chunks(SKIPPED).enumerate() {
            if piece.iter().fold(0, |all, byte| all | byte) == 0 {
                continue;
            }
            let start = number * SKIPPED;
            end = start + piece.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            for (half, piece) in piece.chunks(PIECE).enumerate() {
                let mut words = [0; PIECE];
                words[..piece.len()].copy_from_slice(piece);
                let words = u128::from_le_bytes(words);
                if words != 0 {
                    self.mix(offset + (start + half * PIECE) as u64, words);
                }
            }
        }
        end
    }

    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    fn mix(&mut self, place: u64, words: u128) {
        let Keys { first, place: odd, .. } = self.keys;
        let (low, high) = (words as u64, (words >> 64) as u64);
        let low = (low ^ first).wrapping_add(place.wrapping_mul(odd));
        self.state = fold(low, high ^ self.state);
    }

    /// The number, of bytes of this length that are of a kind.
    pub fn finish(self, length: u64, kind: u64) -> u64 {
        let Self { keys, state } = self;
        let length = fold(length ^ keys.first, kind ^ keys.second);
        fold(state ^ keys.place, length)
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the two halves")]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn of(keys: Keys, parts: &[&[u8]]) -> u64 {
        let (mut print, mut at) = (Fingerprint::new(keys), 0);
        for part in parts {
            print.add(at, part);
            at += part.len() as u64;
        }
        print.finish(at, 0)
    }

    #[test]
    fn equal_bytes_have_one_number_however_they_are_cut() {
        let keys = Keys::random();
        let bytes: Vec<u8> = (0..1000_u32).map(|n| n.to_le_bytes()[0] / 3).collect();
        let whole = of(keys, &[&bytes]);
        for cut in (0..1000).step_by(16) {
            assert_eq!(of(keys, &[&bytes[..cut], &bytes[cut..]]), whole, "{cut}");
        }
    }

    #[test]
    fn one_bit_one_place_or_one_zero_more_is_another_number() {
        let keys = Keys::random();
        let mut seen = HashSet::new();
        let mut bytes = vec![0; 200];
        for at in 0..200 {
            for bit in 0..8 {
                bytes[at] = 1 << bit;
                assert!(seen.insert(of(keys, &[&bytes])), "{at} {bit}");
            }
            bytes[at] = 0;
        }
        (0..100).for_each(|length| assert!(seen.insert(of(keys, &[&bytes[..length]]))));
    }

    #[test]
    fn the_end_is_behind_the_last_byte_that_is_not_zero() {
        let keys = Keys::random();
        let mut bytes = vec![0; 200];
        assert_eq!(Fingerprint::new(keys).add(0, &bytes), 0);
        for at in [0, 15, 16, 63, 64, 129, 199] {
            bytes[at] = 7;
            assert_eq!(Fingerprint::new(keys).add(0, &bytes), at + 1);
        }
    }
}
