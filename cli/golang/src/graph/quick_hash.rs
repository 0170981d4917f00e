//! A hash of numbers, for tables that are asked for every object. The numbers come from the target: it could
//! choose ones that collide, and make the tables slow. It could as well have more objects.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

/// A table by numbers.
pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// A set of numbers.
pub type QuickSet<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// An odd number without a pattern: the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        // The table takes the lowest bits and the highest.
        self.0.rotate_left(32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(26) ^ number).wrapping_mul(SPREAD);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
