//! What no sample was seen of, though it may be there.
//!
//! Samples fall on bytes as rain does: on a stretch of `x` mean distances none falls with the chance
//! `exp(-x)`. So where nothing was sampled there may still be some such distances' worth of bytes, and
//! as many blocks as fit in, a byte each. A site that mixes blocks that are always recorded with tiny
//! ones looks complete as long as none of the tiny ones was sampled; without this bound its interval
//! would have no width.
//!
//! What the hooks counted is exact. There cannot be more unseen than the calls and bytes that are left
//! when those of the blocks that are known one by one are taken away: nothing, if all blocks are.

use crate::exact::{Exact, float};

/// So many mean distances stay without a sample in 2.5 % of cases.
pub const UNSEEN: f64 = 3.688_879_454_113_936;

/// Bytes and blocks of which no sample need have been seen.
///
/// Half of the digits will do for a bound, and every row has one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Unseen {
    bytes: f32,
    blocks: f32,
}

/// What is known of a session besides its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The largest mean distance between samples.
    pub every: u64,
    /// Blocks that were allocated and their bytes, as the hooks counted them; no less than there were.
    pub asked: Option<Exact>,
}

impl Unseen {
    /// In a session that recorded these blocks one by one, and samples of others.
    pub fn new(known: Facts, certain: Exact) -> Self {
        if known.every <= 1 {
            return Self::default();
        }
        let most = UNSEEN * float(known.every);
        let left = |all: u64, certain: u64| most.min(float(all.saturating_sub(certain)));
        let [bytes, blocks] = known.asked.map_or([most; 2], |asked| {
            [left(asked.bytes, certain.bytes), left(asked.count, certain.count)]
        });
        Self { bytes: narrow(bytes), blocks: narrow(blocks) }
    }

    /// Bytes and blocks.
    pub fn parts(self) -> [f64; 2] {
        [self.bytes, self.blocks].map(f64::from)
    }

    /// The larger one: bounds of one session are the same, and those of several do not add up.
    pub fn max(self, other: Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), blocks: self.blocks.max(other.blocks) }
    }
}

/// Not less than it was.
#[allow(clippy::cast_possible_truncation, reason = "it is at most some times 2^64, and rounded up")]
fn narrow(number: f64) -> f32 {
    if number > 0.0 { (number as f32).next_up() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_unseen_where_every_block_is_recorded() {
        let known = Facts { every: 1, asked: None };
        assert_eq!(Unseen::new(known, Exact::default()).parts(), [0.0; 2]);
    }

    #[test]
    fn no_more_is_unseen_than_was_asked_for() {
        let asked = Some(Exact { bytes: 10_100, count: 3 });
        let known = Facts { every: 4096, asked };
        let [bytes, blocks] = Unseen::new(known, Exact { bytes: 10_000, count: 1 }).parts();
        assert!((bytes - 100.0).abs() < 0.01 && (blocks - 2.0).abs() < 0.01, "{bytes} {blocks}");
        let [bytes, _] = Unseen::new(Facts { every: 4096, asked: None }, Exact::default()).parts();
        assert!((bytes / (4096.0 * 3.69) - 1.0).abs() < 0.01, "{bytes}");
    }
}
