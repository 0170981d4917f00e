//! What heapattach itself takes from the machine: its processes' memory and processor time.

use std::time::Duration;

use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};
use serde::{Deserialize, Serialize};

/// What was taken, by one process or by several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expense {
    /// Bytes in memory, at most; 0 where there is no `/proc` to ask.
    pub memory: u64,
    /// Processor time.
    pub cpu_us: u64,
}

impl Expense {
    /// What this process took until now.
    pub fn own() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Self::default() };
        let micros = |time: TimeVal| {
            time.tv_sec().unsigned_abs() * 1_000_000 + time.tv_usec().unsigned_abs()
        };
        Self {
            memory: most_resident().unwrap_or(0),
            cpu_us: micros(usage.user_time()) + micros(usage.system_time()),
        }
    }

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

/// What `getrusage` says of memory is no good: it is handed on over an exec, from whoever started us.
fn most_resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted() {
        let before = Expense::own();
        let mut bytes = vec![1u8; 64 << 20];
        for round in 0..20u8 {
            bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3).wrapping_add(round));
        }
        std::hint::black_box(&bytes);
        let after = Expense::own();
        assert!(after.memory >= 64 << 20, "{after:?}");
        assert!(after.cpu_us > before.cpu_us, "{before:?} {after:?}");
        assert_eq!(before.and(after).memory, before.memory + after.memory);
    }
}
