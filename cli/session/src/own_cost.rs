//! Asks the system what this process took: memory and processor time.

use heapattach_report::OwnCost;
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// What this process took until now; its memory is 0 where there is no `/proc` to ask.
pub fn own_cost() -> OwnCost {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return OwnCost::default() };
    let micros =
        |time: TimeVal| time.tv_sec().unsigned_abs() * 1_000_000 + time.tv_usec().unsigned_abs();
    OwnCost {
        memory: most_resident().unwrap_or(0),
        cpu_us: micros(usage.user_time()) + micros(usage.system_time()),
    }
}

/// Not from `getrusage`: what it says of memory is kept over an exec, so it includes the process that
/// started us.
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
        let before = own_cost();
        let mut bytes = vec![1u8; 64 << 20];
        for round in 0..20u8 {
            bytes.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(3).wrapping_add(round));
        }
        std::hint::black_box(&bytes);
        let after = own_cost();
        assert!(after.memory >= 64 << 20, "{after:?}");
        assert!(after.cpu_us > before.cpu_us, "{before:?} {after:?}");
        assert_eq!(before.and(after).memory, before.memory + after.memory);
    }
}
