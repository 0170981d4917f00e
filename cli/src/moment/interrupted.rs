//! Signals that are held back while a process of ours works: they are answered when it is done.

use std::fs;

/// Whether a signal that ends a command came meanwhile.
pub fn is_interrupted() -> bool {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let pending = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = pending("SigPnd:") | pending("ShdPnd:");
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
        .iter()
        .any(|&signal| pending & 1_u64.wrapping_shl(signal as u32 - 1) != 0)
}
