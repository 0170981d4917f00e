//! Counts are exact, per call site, however many threads and sites there are.

use std::{sync::Barrier, thread};

use heapattach_abi::{
    kind::{ArgKind, MAX_HOOKS},
    table::{ALL_ROWS, Count, SITE_PROBES, SITES, TICKS},
};

use crate::{
    placed::{Counts, Placed},
    sites::{Sites, original, sum},
};

fn count(calls: u64, bytes: u64) -> Count {
    Count { calls, bytes }
}

#[test]
fn every_kind_counts_its_own_bytes_and_goes_on_to_the_original() {
    let placed = Placed::new(original());
    let mut truth = Counts::new();
    for hook in 0..MAX_HOOKS {
        let kind = *ArgKind::ALL.iter().rfind(|kind| hook >= kind.first_hook()).unwrap();
        let sites = Sites::new(placed.hook(hook), 2);
        for (a, b, c) in [(0, 0, 0), (3, 5, 7), (1 << 40, 1 << 20, 1 << 62), (9, 1 << 40, 2)] {
            let bytes = match kind {
                ArgKind::None => 0,
                ArgKind::Arg0 => a,
                ArgKind::Arg1 => b,
                ArgKind::Arg2 => c,
                ArgKind::Product => a * b,
            };
            for site in 0..2 {
                assert_eq!(sites.call(site, a, b, c), sum(a, b, c));
                let total = truth.entry((hook, sites.return_address(site))).or_default();
                total.calls += 1;
                total.bytes += bytes;
            }
        }
    }
    assert_eq!(placed.counts(), truth);
}

#[test]
fn requests_that_cannot_be_granted_count_as_no_bytes() {
    let placed = Placed::new(original());
    let product = ArgKind::Product.first_hook();
    for (hook, a, b, bytes) in [
        (ArgKind::Arg0.first_hook(), u64::MAX, 0, 0),
        (ArgKind::Arg0.first_hook(), i64::MAX.cast_unsigned(), 0, i64::MAX.cast_unsigned()),
        (ArgKind::Arg1.first_hook(), 0, 1 << 63, 0),
        (product, 1 << 32, 1 << 32, 0),
        (product, 1 << 31, 1 << 32, 0),
        (product, u64::MAX, u64::MAX, 0),
        (product, 0, u64::MAX, 0),
        (product, 1 << 31, 1 << 31, 1 << 62),
    ] {
        let sites = Sites::new(placed.hook(hook), 1);
        for times in 1..3 {
            sites.call(0, a, b, 0);
            let counted = placed.counts()[&(hook, sites.return_address(0))];
            assert_eq!(counted, count(times, times * bytes), "{a:#x} {b:#x}");
        }
    }
}

#[test]
fn eight_threads_with_a_million_calls_each_are_counted_exactly() {
    for threads in [1, 8] {
        let placed = Placed::new(original());
        let (malloc, free) = (ArgKind::Arg0.first_hook(), ArgKind::None.first_hook());
        let (mallocs, frees) =
            (Sites::new(placed.hook(malloc), 20), Sites::new(placed.hook(free), 5));
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for call in 0..500_000_usize {
                        mallocs.call(call % 20, 24, 0, 0);
                        frees.call(call % 5, 1, 2, 3);
                    }
                });
            }
        });
        let mut truth = Counts::new();
        for site in 0..20 {
            let calls = threads * 25_000;
            truth.insert((malloc, mallocs.return_address(site)), count(calls, calls * 24));
        }
        for site in 0..5 {
            truth.insert((free, frees.return_address(site)), count(threads * 100_000, 0));
        }
        assert_eq!(placed.counts(), truth);
    }
}

#[test]
fn threads_without_a_row_share_one_exactly() {
    let placed = Placed::new(original());
    placed.give_away(1..ALL_ROWS);
    let hook = ArgKind::Arg1.first_hook();
    let sites = Sites::new(placed.hook(hook), SITES);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for call in 0..100 * SITES {
                    sites.call(call % SITES, 0, 3, 0);
                }
            });
        }
    });
    let counts = placed.counts();
    let calls: u64 = counts.values().map(|count| count.calls).sum();
    assert_eq!(calls, 8 * 100 * SITES as u64);
    assert!(counts.len() > SITES / 2, "most sites have room");
    for ((_, caller), count) in counts {
        assert_eq!(count.bytes, 3 * count.calls);
        assert!(caller == 0 || count.calls == 800, "{caller:#x} {count:?}");
    }
}

#[test]
fn more_threads_than_rows_are_counted_exactly() {
    let placed = Placed::new(original());
    // A quarter of the rows, for not every machine that tests bears 2000 threads.
    placed.give_away((1..ALL_ROWS).filter(|row| !row.is_multiple_of(4)));
    let given_away = placed.rows();
    let hook = ArgKind::Arg0.first_hook();
    let sites = Sites::new(placed.hook(hook), 1);
    // Alive at the same time, so that their thread pointers differ.
    let threads = 800;
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            let run = || {
                barrier.wait();
                for _ in 0..100 {
                    sites.call(0, 1, 0, 0);
                }
                barrier.wait();
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, run).unwrap();
        }
    });
    let truth = count(100 * threads as u64, 100 * threads as u64);
    assert_eq!(placed.counts(), [((hook, sites.return_address(0)), truth)].into());
    let claimed = placed.rows() - given_away;
    assert!((200..threads).contains(&claimed), "{claimed} rows claimed");
}

#[test]
fn calls_from_sites_without_room_go_to_the_overflow() {
    let placed = Placed::new(original());
    let hook = ArgKind::Arg2.first_hook() + 3;
    let all = 4 * SITES;
    let sites = Sites::new(placed.hook(hook), all);
    for call in 0..10 * all {
        sites.call(call % all, 0, 0, 11);
    }
    let counts = placed.counts();
    assert_eq!(counts.values().map(|count| count.calls).sum::<u64>(), 10 * all as u64);
    let room = counts.keys().filter(|(_, caller)| *caller != 0).count();
    assert!((SITES..=SITES + SITE_PROBES).contains(&room), "{room} sites");
    assert_eq!(counts[&(hook, 0)].calls, 10 * (all - room) as u64);
    for count in counts.values() {
        assert_eq!(count.bytes, 11 * count.calls);
    }
}

#[test]
fn hooks_that_are_off_pass_through() {
    let placed = Placed::new(original());
    placed.disable();
    for hook in 0..MAX_HOOKS {
        assert_eq!(Sites::new(placed.hook(hook), 1).call(0, 1, 2, 3), 6);
    }
    assert_eq!((placed.counts(), placed.rows()), (Counts::new(), 0));
}

#[test]
fn a_stale_heartbeat_switches_the_hooks_off_within_its_ticks() {
    let placed = Placed::new(original());
    let hook = ArgKind::Arg0.first_hook();
    let sites = Sites::new(placed.hook(hook), 1);
    placed.enable(u64::MAX);
    for _ in 0..10_000 {
        sites.call(0, 1, 0, 0);
    }
    assert_eq!(placed.state(), (1, 0));
    placed.enable(1);
    for _ in 0..10_000 {
        sites.call(0, 1, 0, 0);
    }
    assert_eq!(placed.state(), (0, 1));
    let calls = placed.counts()[&(hook, sites.return_address(0))].calls;
    assert!((10_000..=10_000 + u64::from(TICKS)).contains(&calls), "{calls} calls");
    // A later beat brings them back.
    placed.enable(0);
    sites.call(0, 1, 0, 0);
    assert_eq!(placed.counts()[&(hook, sites.return_address(0))].calls, calls + 1);
}

#[test]
fn a_stale_heartbeat_is_seen_in_the_shared_row_and_on_the_first_call_of_a_thread() {
    for full in [false, true] {
        let placed = Placed::new(original());
        if full {
            placed.give_away(1..ALL_ROWS);
        }
        placed.enable(1);
        Sites::new(placed.hook(0), 1).call(0, 1, 0, 0);
        assert_eq!(placed.state(), (0, 1));
    }
}
