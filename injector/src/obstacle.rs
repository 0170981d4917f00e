//! Whether text may be changed at a stop: not while a thread stands in it, or runs in the same memory
//! without being stopped.

use crate::{
    entry::KeepOut,
    plan::{PlannedHook, Way},
    proc::maps::Mapping,
    quiet::{self, Evidence},
    stopped::Stopped,
};

/// Why entries cannot be patched at this stop, though perhaps at the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotNow {
    /// A vfork child runs in the same memory.
    VforkChild,
    /// This thread stands in a window, or returns into one.
    ThreadInWindow(i32),
}

/// Whether text may be changed at this stop.
pub fn not_now(stop: &Stopped<'_>, maps: &[Mapping<'_>], hooks: &[PlannedHook]) -> Option<NotNow> {
    let windows: Vec<_> = hooks
        .iter()
        .filter_map(|hook| match &hook.way {
            Way::Entry(parts) => Some(parts.plan.window_at(parts.bias)),
            _ => None,
        })
        .collect();
    if windows.is_empty() {
        return None;
    }
    if stop.has_vfork_child() {
        return Some(NotNow::VforkChild);
    }
    let keep_out = KeepOut::new(windows);
    quiet::thread_in(stop, maps, Evidence::AnyWord, |word| keep_out.strictly_inside(word))
        .map(NotNow::ThreadInWindow)
}
