//! How much unwind information is looked at, whatever a target claims to have.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No module has more: that of 500 MiB of code is not.
const MODULE: u64 = 1 << 26;

/// Takes so many bytes, for one module, of what is `left` for all.
pub fn spend(left: &AtomicU64, bytes: u64) -> Option<()> {
    if bytes > MODULE {
        return None;
    }
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).ok().map(drop)
}
