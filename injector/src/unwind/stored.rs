//! Rows of a module in the cache: made once for a build, found by a hash of what they were made from.
//!
//! ```text
//! +0   magic            the form of what follows, and of the rules in it
//! +8   key              once more, against files that were given another name
//! +40  number of rows
//! +48  sum of the rows  against damage
//! +56  rows             distance from the start of the code, rule
//! ```
//!
//! A file is believed as far as it makes sense: rows ascend within the code, and every rule is one.
//! Where it does not, the rows are made anew.

use heapattach_abi::unwind::{NONE, RULE_BITS, Rule};

use heapattach_process::{
    addr::RemoteAddr,
    image::Image,
    little_endian::{u32_at, u64_at},
};

use super::Compiled;
use heapattach_process::cache::{Cache, Key, sum};

/// Raised whenever rows or rules change.
const MAGIC: &[u8; 8] = b"HAROWS02";
const HEAD: usize = 56;
const ROW: usize = 8;

/// Shorter information is read as fast as a file is.
const LEAST: usize = 4096;

/// What rows of this information are found by: all that they depend on, if it is worth while.
pub(super) fn key(bytes: &[u8], at: RemoteAddr, image: &Image, build: &[u8]) -> Option<Key> {
    if bytes.len() < LEAST {
        return None;
    }
    Some(Key::of(&[MAGIC, build, &words(at, image)?, bytes]))
}

/// Where unwind information at `at` lies, seen from the code, and how long that is.
pub(super) fn words(at: RemoteAddr, image: &Image) -> Option<Vec<u8>> {
    let distance = at.get().wrapping_sub(image.code.start.get());
    Some([distance, length_of(image)?].map(u64::to_le_bytes).concat())
}

/// The rows that are kept, if they can be those of `image`.
pub(super) fn find(cache: &Cache, key: &Key, image: &Image) -> Option<Compiled> {
    decode(&cache.read(key)?, key, length_of(image)?)
}

/// Keeps rows.
pub(super) fn keep(cache: &Cache, key: &Key, compiled: &Compiled) {
    cache.write(key, &encode(key, compiled));
}

fn length_of(image: &Image) -> Option<u64> {
    image.code.end.offset_from(image.code.start)
}

fn encode(key: &Key, compiled: &Compiled) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + compiled.rows.len() * ROW);
    bytes.extend(MAGIC);
    bytes.extend(key.bytes());
    bytes.extend((compiled.rows.len() as u64).to_le_bytes());
    bytes.extend([0; 8]);
    for (at, rule) in &compiled.rows {
        bytes.extend(at.to_le_bytes());
        bytes.extend(rule.to_le_bytes());
    }
    let sum = sum(bytes.get(HEAD..).unwrap_or_default());
    if let Some(place) = bytes.get_mut(HEAD - 8..HEAD) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8], key: &Key, length: u64) -> Option<Compiled> {
    let rows = bytes.get(HEAD..)?;
    let is_named = bytes.starts_with(MAGIC) && bytes.get(8..40)? == key.bytes();
    let count = usize::try_from(u64_at(bytes, 40)?).ok()?;
    let is_whole = rows.len() == count.checked_mul(ROW)? && u64_at(bytes, 48)? == sum(rows);
    if !is_named || !is_whole {
        return None;
    }
    let mut before = None;
    let mut decoded = Vec::with_capacity(count);
    for row in rows.chunks_exact(ROW) {
        let (at, rule) = (u32_at(row, 0)?, u32_at(row, 4)?);
        let is_rule = rule >> RULE_BITS == 0 && (rule == NONE || Rule::unpack(rule).is_some());
        // The last row may say where the code ends.
        if !is_rule || u64::from(at) > length || before.is_some_and(|before| at <= before) {
            return None;
        }
        before = Some(at);
        decoded.push((at, rule));
    }
    Some(Compiled::of(decoded))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 1 << 16;

    fn some_key() -> Key {
        Key::of(&[b"some"])
    }

    /// Rows as a compiler of ours makes them.
    fn rows() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let rule = prop_oneof![
            Just(NONE),
            (1..1_u32 << 17, 0..1_u32 << 9).prop_map(|(distance, saved)| Rule::Stack {
                distance,
                saved
            }
            .pack()),
            Just(Rule::Outermost.pack()),
            Just(Rule::Unknown.pack()),
        ];
        let row = (0..u32::try_from(LENGTH).unwrap(), rule);
        prop::collection::vec(row, 0..200).prop_map(|mut rows| {
            rows.sort_by_key(|row| row.0);
            rows.dedup_by_key(|row| row.0);
            rows
        })
    }

    proptest! {
        #[test]
        fn what_was_kept_comes_back_word_for_word(rows in rows()) {
            let compiled = Compiled::of(rows);
            let back = decode(&encode(&some_key(), &compiled), &some_key(), LENGTH);
            prop_assert_eq!(back, Some(compiled));
        }

        #[test]
        fn a_damaged_file_is_no_file(rows in rows(), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = encode(&some_key(), &Compiled::of(rows));
            let at = at.index(bytes.len());
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(decode(&bytes, &some_key(), LENGTH), None);
            bytes.truncate(at);
            prop_assert_eq!(decode(&bytes, &some_key(), LENGTH), None);
        }

        /// A user who can write to the folder can make up the sum, too.
        #[test]
        fn made_up_rows_lead_nowhere_but_into_the_code(
            words in prop::collection::vec(any::<u64>(), 0..50),
            length in 0..LENGTH,
        ) {
            let mut bytes = MAGIC.to_vec();
            bytes.extend(some_key().bytes());
            bytes.extend((words.len() as u64).to_le_bytes());
            bytes.extend([0; 8]);
            words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            let sum = sum(&bytes[HEAD..]);
            bytes[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
            if let Some(compiled) = decode(&bytes, &some_key(), length) {
                prop_assert!(compiled.rows.is_sorted_by(|a, b| a.0 < b.0));
                for (at, rule) in compiled.rows {
                    prop_assert!(u64::from(at) <= length);
                    prop_assert!(rule == NONE || Rule::unpack(rule).is_some());
                }
            }
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(decode(&bytes, &some_key(), LENGTH), None);
        }
    }

    #[test]
    fn rows_of_another_build_are_not_taken() {
        let bytes = encode(&some_key(), &Compiled::of(vec![(16, NONE)]));
        assert_eq!(decode(&bytes, &Key::of(&[b"other"]), LENGTH), None);
        assert!(decode(&bytes, &some_key(), LENGTH).is_some());
        assert_eq!(decode(&bytes, &some_key(), 15), None, "beyond the code");
    }
}
