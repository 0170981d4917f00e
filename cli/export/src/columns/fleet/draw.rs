//! Chance that is the same each time: numbers that follow from other numbers.

/// Of so many numbers one that no one of them tells.
pub fn mixed(of: &[u64]) -> u64 {
    of.iter().fold(0, |before: u64, number| {
        let mut mixed = (before ^ number).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    })
}

/// The same as a number of a table; none is 0.
pub fn number(of: &[u64]) -> i64 {
    mixed(of).max(1).cast_signed()
}

/// Draws one number after the other.
pub struct Draw(pub u64);

impl Draw {
    /// From `least` to `most`.
    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        self.0 = mixed(&[self.0]);
        // As many bits as a fraction has.
        #[allow(clippy::cast_precision_loss)]
        let part = (self.0 >> 11) as f64 / (1_u64 << 53) as f64;
        least + part * (most - least)
    }
}
