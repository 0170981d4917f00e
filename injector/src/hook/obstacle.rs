//! Whether text may be changed at a stop: not while a thread stands in it, or runs in the same memory
//! without being stopped.

use crate::{
    hook::{
        plan::{HookMode, PlannedHook, Way},
        quiet::{self, Evidence},
    },
    trace::stopped::Stopped,
};
use heapattach_entry::KeepOut;
use heapattach_process::proc::maps::Mapping;

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

/// Leaves entries to the slots that could not be patched, and says why.
pub(crate) fn fall_back(hooks: &mut [PlannedHook], reason: NotNow, mode: HookMode) {
    let why = match reason {
        NotNow::VforkChild => "a vfork child ran in the same memory at every try".to_owned(),
        NotNow::ThreadInWindow(tid) => {
            format!("thread {tid} stood in the first instructions at every try")
        }
    };
    for hook in hooks.iter_mut().filter(|h| matches!(h.way, Way::Entry(_))) {
        hook.leave_entry(why.clone(), mode);
    }
}
