//! Signal handlers that call the hook they interrupt.
//!
//! # Safety
//! The handlers touch only atomics and call only hooks.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use heapattach_abi::{
    kind::ArgKind,
    table::{ALL_ROWS, SITE_PROBES, SITES, site_index, site_key},
};

use crate::{
    placed::{Counts, Placed, thread_pointer},
    sites::{Sites, original, sum},
    steps::{Call, interrupt},
};

/// What a thread's row is like before the interrupted call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    /// Not there.
    NoRow,
    /// There, but the site is not in it.
    NoSite,
    /// The call was counted before.
    Known,
    /// There is no room for the site.
    Full,
    /// Every row is somebody else's.
    Shared,
    /// A heartbeat is due.
    Tick,
}

/// Enough sites that more than a bucket's probes fall into any one bucket.
const MANY: usize = 64 * SITES;

#[test]
fn a_signal_between_any_two_instructions_loses_nothing() {
    use Before::{Full, Known, NoRow, NoSite, Shared, Tick};
    let placed = Placed::new(original());
    let hooks = [ArgKind::None, ArgKind::Arg1, ArgKind::Product].map(ArgKind::first_hook);
    for before in [NoRow, NoSite, Known, Full, Tick, Shared] {
        for hook in hooks {
            let scene = Scene::new(&placed, hook);
            // Whoever comes first takes the bucket: the interrupted site or its rival.
            for rival_first in [false, true] {
                let one = |at| scene.steps_of_one(before, at, rival_first);
                let steps = (0..).find(|at| *at > one(*at)).unwrap();
                assert!(steps > 20, "only {steps} instructions were interrupted");
            }
        }
    }
}

/// A hook with many call sites.
struct Scene<'a> {
    placed: &'a Placed,
    hook: usize,
    sites: Sites,
    /// Those of the first site's bucket, itself first.
    crowd: Vec<usize>,
}

impl<'a> Scene<'a> {
    fn new(placed: &'a Placed, hook: usize) -> Self {
        let sites = Sites::new(placed.hook(hook), MANY);
        let index = |site: &usize| site_index(site_key(sites.return_address(*site), hook));
        let crowd: Vec<_> = (0..MANY).filter(|site| index(site) == index(&0)).collect();
        assert!(crowd.len() >= 2 + SITE_PROBES, "{MANY} sites are too few");
        Self { placed, hook, sites, crowd }
    }

    fn call_times(&self, site: usize, times: u64) -> u64 {
        for _ in 0..times {
            self.sites.call(site, 0, 0, 0);
        }
        times
    }

    /// Makes the row what it is to be and returns the calls this took.
    fn prepare(&self, before: Before) -> u64 {
        self.placed.take_row(thread_pointer(), &mut Counts::new());
        match before {
            Before::NoRow => 0,
            Before::NoSite => self.call_times(self.crowd[1] + 1, 1),
            Before::Known => self.call_times(0, 1),
            Before::Tick => self.call_times(0, 4096),
            Before::Shared => {
                self.placed.give_away(1..ALL_ROWS);
                0
            }
            Before::Full => {
                let others = &self.crowd[2..2 + SITE_PROBES];
                others.iter().map(|site| self.call_times(*site, 1)).sum()
            }
        }
    }

    /// Interrupts one call, checks the counts, and returns the instructions it took.
    fn steps_of_one(&self, before: Before, at: u32, rival_first: bool) -> u32 {
        let Self { placed, hook, sites, crowd } = self;
        let prepared = self.prepare(before);
        let rival = crowd[1];
        let mut truth = placed.counts();
        let base = truth.values().map(|count| count.calls).sum::<u64>();
        assert!(before == Before::Shared || base == prepared);
        let [first, second] = if rival_first { [rival, 0] } else { [0, rival] };
        let between = (sites.function(first), sites.function(second));
        let steps = interrupt(sites.function(0), [1, 1, 1], placed.code(), at, between);
        let called = if at < steps { &[0, 0, rival][..] } else { &[0] };
        for site in called {
            let room = before != Before::Full;
            let caller = if room { sites.return_address(*site) } else { 0 };
            let count = truth.entry((*hook, caller)).or_default();
            count.calls += 1;
            count.bytes += u64::from(*hook != ArgKind::None.first_hook());
        }
        assert_eq!(placed.counts(), truth, "{before:?}, hook {hook}, step {at}");
        steps
    }
}

/// The payload and the row that another thread, played by the handler, has taken in it.
static RIVAL: OnceLock<(Placed, AtomicUsize)> = OnceLock::new();

extern "C" fn take_next_row(_: u64, _: u64, _: u64) -> u64 {
    let (placed, taken) = RIVAL.get().unwrap();
    let row = placed.next_row(thread_pointer());
    placed.give_away([row]);
    taken.store(row, Relaxed);
    0
}

#[test]
fn a_row_that_another_thread_takes_meanwhile_stays_theirs() {
    let rival = RIVAL.get_or_init(|| (Placed::new(original()), AtomicUsize::new(0)));
    let placed = &rival.0;
    let site = Sites::new(placed.hook(0), 1);
    let between = (take_next_row as Call, sum as Call);
    let (mut at, mut steps) = (0, 1);
    while at < steps {
        steps = interrupt(site.function(0), [0; 3], placed.code(), at, between);
        let mut own = Counts::new();
        placed.take_row(thread_pointer(), &mut own);
        assert_eq!(own[&(0, site.return_address(0))].calls, 1, "step {at}");
        assert_eq!(placed.clear_row(rival.1.load(Relaxed)), 1, "step {at} wrote to it");
        at += 1;
    }
    assert!(at > 40, "only {at} instructions were interrupted");
}

struct Storm {
    sites: Sites,
    handled: Vec<AtomicU64>,
    signals: AtomicUsize,
}

static STORM: OnceLock<Storm> = OnceLock::new();

extern "C" fn on_signal(_: i32) {
    if let Some(storm) = STORM.get() {
        let signal = storm.signals.fetch_add(1, Relaxed);
        for site in [0, 7 * signal, 31 * signal] {
            let site = site % storm.handled.len();
            storm.sites.call(site, 2, 0, 0);
            storm.handled[site].fetch_add(1, Relaxed);
        }
    }
}

#[test]
fn a_storm_of_signals_keeps_the_counts_exact() {
    const COUNT: usize = 400; // more sites than a row has room for
    const SIGNALS: usize = 6_000;
    let placed = Placed::new(original());
    let hook = ArgKind::Arg0.first_hook();
    let handled = (0..COUNT).map(|_| AtomicU64::new(0)).collect();
    let sites = Sites::new(placed.hook(hook), COUNT);
    let storm = STORM.get_or_init(|| Storm { sites, handled, signals: AtomicUsize::new(0) });
    let timer = start_timer(100_000);
    let mut counts = Counts::new();
    let mut own = vec![0; COUNT];
    // New rows and new sites all the time, for these are where a handler could do harm.
    while storm.signals.load(Relaxed) < SIGNALS {
        for site in 0..3 * COUNT {
            storm.sites.call(site * 5 % COUNT, 2, 0, 0);
            own[site * 5 % COUNT] += 1;
        }
        masked(|| placed.take_row(thread_pointer(), &mut counts));
    }
    // SAFETY: the timer made above, deleted once.
    assert_eq!(unsafe { libc::timer_delete(timer) }, 0);
    masked(|| placed.take_row(thread_pointer(), &mut counts));
    let handled = |site: usize| storm.handled[site].load(Relaxed);
    let total: u64 = (0..COUNT).map(|site| own[site] + handled(site)).sum();
    assert_eq!(counts.values().map(|count| count.calls).sum::<u64>(), total);
    assert_eq!(counts.values().map(|count| count.bytes).sum::<u64>(), 2 * total);
    for ((_, caller), count) in counts.iter().filter(|((_, caller), _)| *caller != 0) {
        let site = (0..COUNT).find(|site| storm.sites.return_address(*site) == *caller).unwrap();
        assert!(count.calls <= own[site] + handled(site), "site {site}");
    }
    println!("{} signals, {total} calls", storm.signals.load(Relaxed));
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
