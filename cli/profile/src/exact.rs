//! Blocks that are known one by one, and whole numbers among fractions.

/// Blocks that are known one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact {
    /// Their bytes.
    pub bytes: u64,
    /// The number of blocks.
    pub count: u64,
}

impl Exact {
    /// Adds a block.
    pub fn add(&mut self, size: u64) {
        self.bytes = self.bytes.saturating_add(size);
        self.count = self.count.saturating_add(1);
    }

    /// Removes a block.
    pub fn remove(&mut self, size: u64) {
        self.bytes = self.bytes.saturating_sub(size);
        self.count = self.count.saturating_sub(1);
    }

    /// Those of another sum, too.
    pub fn merge(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.count = self.count.saturating_add(other.count);
    }
}

/// The nearest floating-point number: a count of bytes has more digits only beyond 8 PiB.
pub fn float(number: u64) -> f64 {
    number as f64
}
