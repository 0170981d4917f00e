//! A storm of real signals, whose handler calls the hooks that it interrupts.
//!
//! # Safety
//! The handlers touch only atomics and call only hooks.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use heapattach_abi::{kind::HookKind, region, row};

use crate::{audit::audit, placed::Placed};

static STORM: OnceLock<Placed> = OnceLock::new();
static SIGNALS: AtomicU64 = AtomicU64::new(0);

/// Gets two blocks and gives one back, which is often a sample.
fn trade(placed: &Placed, size: u64) {
    let block = placed.first(HookKind::Malloc)(size, 0, 0, 0);
    placed.first(HookKind::Free)(block, 0, 0, 0);
    let other = placed.first(HookKind::Calloc)(2, size, 0, 0);
    let moved = placed.first(HookKind::Realloc)(other, size + 8, 0, 0);
    placed.first(HookKind::Free)(moved, 0, 0, 0);
}

extern "C" fn on_signal(_: i32) {
    if let Some(placed) = STORM.get() {
        SIGNALS.fetch_add(1, Relaxed);
        trade(placed, 100);
    }
}

#[test]
fn a_storm_of_signals_keeps_counts_and_records_exact() {
    const ENOUGH: u64 = 3_000;
    let placed = STORM.get_or_init(|| Placed::new(256, 12));
    let timer = start_timer(100_000);
    let (mut own, mut signals, mut records) = (0, 0, 0);
    while signals + SIGNALS.load(Relaxed) < ENOUGH {
        // New rows all the time, for these are where a handler could do harm.
        (0..100).for_each(|call| trade(placed, 16 + call));
        own += 100;
        masked(|| {
            let found = audit(placed);
            let handled = SIGNALS.swap(0, Relaxed);
            let calls: u64 = placed.counts().values().map(|count| count.calls).sum();
            assert_eq!(calls, 5 * (100 + handled));
            records += found.len();
            placed.reset(&found);
            signals += handled;
        });
    }
    // SAFETY: the timer made above, deleted once.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    assert_eq!((placed.table_entries(), placed.filter_sum()), (0, 0));
    assert_eq!((placed.total(row::BUSY), placed.word(region::STACKS_LOST)), (0, 0));
    println!("{signals} signals, {own} rounds, {records} records");
}
/// Sends SIGUSR1 to the calling thread every so many nanoseconds.
fn start_timer(nanoseconds: i64) -> libc::timer_t {
    let handler: extern "C" fn(i32) = on_signal;
    // SAFETY: the handler is fit for signals; SIGUSR1 has no other user in this process.
    unsafe { libc::signal(libc::SIGUSR1, handler as usize) };
    // SAFETY: all zero is a valid `sigevent`.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGUSR1;
    // SAFETY: no preconditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both point to initialised memory.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    assert_eq!(made, 0);
    let each = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let spec = libc::itimerspec { it_interval: each, it_value: each };
    // SAFETY: the timer just made and an initialised interval.
    assert_eq!(unsafe { libc::timer_settime(timer, 0, &raw const spec, ptr::null_mut()) }, 0);
    timer
}

/// Runs with SIGUSR1 held back.
fn masked(run: impl FnOnce()) {
    // SAFETY: all zero is a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: an initialised set and a valid number.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGUSR1) };
    // SAFETY: an initialised set.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    run();
    // SAFETY: an initialised set.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut()) };
}
