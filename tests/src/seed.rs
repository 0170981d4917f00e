//! Random choices that can be repeated: a seed, printed, and a small generator.

use std::{
    sync::OnceLock,
    time::{SystemTime, UNIX_EPOCH},
};

/// A xorshift generator; good enough to spread instants, not for anything else.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The seed of this run: `HEAPATTACH_SEED`, or one that rotates with the time. All tests of a binary have the same;
/// each that draws prints it, so that one that fails says how to repeat it.
///
/// # Panics
/// If `HEAPATTACH_SEED` is set and not a number.
pub fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(|| match std::env::var("HEAPATTACH_SEED") {
        Ok(text) => text.parse().expect("HEAPATTACH_SEED is a decimal number"),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970");
            u64::from(now.subsec_nanos()) ^ now.as_secs()
        }
    });
    println!("HEAPATTACH_SEED={seed}");
    seed
}

impl Random {
    /// A generator whose choices depend on nothing but `seed`.
    pub fn new(seed: u64) -> Self {
        // The multiplication spreads neighbouring seeds; xorshift must not start at 0.
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + (self.draw() >> 11) % (high - low).max(1)
    }
}
