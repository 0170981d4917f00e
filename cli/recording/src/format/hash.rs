//! A hash for numbers out of files: quick, and the writer of a file cannot foresee it.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Its state; one to begin with is a secret.
#[derive(Clone, Debug)]
pub struct Quick(u64);

impl Default for Quick {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u64))
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // Both halves of a product depend on all bits.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        let [low, high] = [product, product >> 64]
            .map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or_default());
        self.0 = low ^ high;
    }
}

impl BuildHasher for Quick {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        self.clone()
    }
}
