//! What a file of the cache is about: a hash of all that it was made from, so that only the same
//! comes to be found by it, even if the rest was made up.

use std::fmt;

use sha2::{Digest, Sha512_256};

/// The name of what was made from certain bytes. A hash that takes eight bytes at a time: megabytes are
/// hashed for every attach, and few servers have instructions for the other one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// Of these parts; where one ends and the next begins counts, too.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hash = Sha512_256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// As it stands in a file: what is found by it says itself whether it is that.
    pub fn of_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// To be kept in the file, too.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// FNV-1a by words: a liar can write any sum, but a disk cannot by chance.
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        (hash ^ u64::from_le_bytes(*word)).wrapping_mul(0x100_0000_01b3)
    })
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_make_the_same_bytes_in_a_row_are_told_apart() {
        assert_ne!(Key::of(&[b"ab", b"c"]), Key::of(&[b"a", b"bc"]));
        assert_ne!(Key::of(&[b"abc"]), Key::of(&[b"abc", b""]));
        assert_eq!(Key::of(&[b"ab", b"c"]), Key::of(&[b"ab", b"c"]));
        assert_eq!(Key::of(&[]).to_string().len(), 64);
    }
}
