//! A forked child inherits the hooks, and its private pages read zero.
//!
//! # Safety
//! Children call hooks and nothing else, and end by `_exit`.
#![allow(unsafe_code)]

use heapattach_abi::kind::{HookKind, MAX_HOOKS};

use crate::{
    originals::sum,
    placed::{NEVER, Placed},
    steps::{Stop, interrupt, trace},
};

/// Runs in a forked child; whether it came to its end and was content.
fn in_child(run: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child does what the closures here do: it calls hooks.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let code = i32::from(!run());
        // SAFETY: no preconditions.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: a child of ours and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

#[test]
fn a_forked_child_passes_through_and_counts_nothing() {
    for interval in [1, 1 << 10, NEVER] {
        let placed = Placed::new(interval, 6);
        // How far a walk gets differs from call to call.
        placed.set_most_frames(1);
        HookKind::ALL.into_iter().for_each(|kind| placed.lead(kind, sum));
        let all =
            || (0..MAX_HOOKS).all(|hook| placed.hook(hook)(16, 1 << 12, 3, 0) == 19 + (1 << 12));
        // A thread that is known; the blocks it has may be samples.
        placed.first(HookKind::Malloc)(1 << 60, 0, 0, 0);
        placed.first(HookKind::Malloc)(16, 0, 0, 0);
        let before = (placed.counts(), placed.records());
        assert!(in_child(all), "the child's calls, interval {interval}");
        assert_eq!((placed.counts(), placed.records()), before);
    }
}

#[test]
fn a_fork_between_any_two_instructions_of_a_hook_leaves_the_child_alive() {
    for interval in [1, 1 << 10, NEVER] {
        for kind in HookKind::ALL {
            let placed = Placed::new(interval, 6);
            // How far a walk gets differs from call to call.
            placed.set_most_frames(1);
            let place = std::cell::Cell::new(0_u64);
            let first = match kind {
                HookKind::PosixMemalign => place.as_ptr().expose_provenance() as u64,
                _ => 0x7000,
            };
            let arguments = [first, 1 << 12, 1 << 12, 0];
            let call = placed.first(kind);
            for known in [false, true] {
                let prepare = || {
                    placed.wipe_private();
                    placed.enable(interval, 0);
                    if known {
                        placed.first(HookKind::Free)(0x6000, 0, 0, 0);
                    }
                    placed.drain();
                };
                prepare();
                for stop in trace(&placed, call, arguments).into_iter().filter(Stop::is_early) {
                    prepare();
                    // What the child sees when it goes on.
                    let forks = || placed.wipe_private();
                    if !interrupt(&placed, call, arguments, stop, &forks) {
                        continue;
                    }
                    // Every slot that was taken is written: the parent's reader waits for it.
                    placed.records();
                    let before = placed.counts();
                    call(first, 1 << 12, 1 << 12, 0);
                    assert_eq!(placed.counts(), before, "{kind:?}, known {known}, {stop:x?}");
                }
            }
        }
    }
}
