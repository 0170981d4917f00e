//! What heapattach itself takes from the machine: its processes' memory and processor time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What was taken, by one process or by several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCost {
    /// Bytes in memory, at most; 0 where the kernel did not tell it.
    pub memory: u64,
    /// Processor time.
    pub cpu_us: u64,
}

impl OwnCost {
    /// Together with another process: that both had most at the same time is the worst case.
    pub fn and(self, other: Self) -> Self {
        Self {
            memory: self.memory.saturating_add(other.memory),
            cpu_us: self.cpu_us.saturating_add(other.cpu_us),
        }
    }

    /// The processor time.
    pub fn cpu(self) -> Duration {
        Duration::from_micros(self.cpu_us)
    }
}
