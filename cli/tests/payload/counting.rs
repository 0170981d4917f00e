//! Counts are exact, per hook, however many threads there are.

use std::{sync::Barrier, thread};

use heapattach_abi::{
    index::CLAIMED,
    kind::{HookKind, MAX_HOOKS},
    row::{Count, ROWS, TICKS},
};

use crate::{
    originals::{index, repeat, sum, zero},
    placed::{Counts, NEVER, Placed},
};

fn count(calls: u64, bytes: u64) -> Count {
    Count { calls, bytes }
}

/// Every hook leads to [`sum`], but where a sum would be taken for an address to read from.
fn placed(interval: u64) -> Placed {
    let placed = Placed::new(interval, 6);
    HookKind::ALL.into_iter().for_each(|kind| placed.lead(kind, sum));
    placed
}

fn bytes_of(kind: HookKind, [a, b, c]: [u64; 3]) -> u64 {
    match kind {
        HookKind::Free => 0,
        HookKind::Malloc | HookKind::New => a,
        HookKind::Calloc => a.saturating_mul(b),
        HookKind::Realloc
        | HookKind::Memalign
        | HookKind::Map
        | HookKind::Unmap
        | HookKind::Chosen => b,
        HookKind::PosixMemalign | HookKind::Remap => c,
    }
}

#[test]
fn every_kind_counts_its_own_bytes_and_goes_on_to_the_original() {
    let ways = [(1, true), (1 << 12, true), (NEVER, true), (1 << 12, false)];
    for ((interval, room), is_brief) in ways.into_iter().flat_map(|way| [(way, false), (way, true)])
    {
        let placed = placed(interval);
        placed.be_brief(is_brief);
        if !room {
            placed.use_up_rows();
        }
        let mut truth = Counts::new();
        for (hook, round) in (0..MAX_HOOKS).flat_map(|hook| [(hook, 0), (hook, 1)]) {
            let kind = HookKind::of_hook(hook).unwrap();
            for [a, b, c] in [[3, 5, 7], [1 << 40, 1 << 20, 1 << 62], [9, 1 << 40, 2], [1, 2, 4]] {
                assert_eq!(placed.hook(hook)(a, b, c, 0), sum(a, b, c, 0), "{kind:?}, {round}");
                let total = truth.entry(hook).or_default();
                total.calls += 1;
                total.bytes += bytes_of(kind, [a, b, c]);
            }
            placed.drain();
        }
        assert_eq!(placed.counts(), truth, "interval {interval}, brief: {is_brief}");
        assert_eq!(placed.rows_taken() < ROWS as u64, room);
    }
}

#[test]
fn requests_that_cannot_be_granted_count_as_no_bytes() {
    const MOST: u64 = i64::MAX.cast_unsigned();
    for interval in [1, 1 << 12, NEVER] {
        let placed = placed(interval);
        HookKind::ALL.into_iter().for_each(|kind| placed.lead(kind, zero));
        let mut truth = Counts::new();
        for kind in HookKind::ALL {
            // Where its original reports success, there must be something to read.
            let place = [0_u64; 2];
            let first = place.as_ptr().addr() as u64;
            for size in [u64::MAX, 1 << 63, MOST, MOST + 1, 0, 1, u64::MAX] {
                let arguments = match kind {
                    HookKind::Free | HookKind::Malloc | HookKind::New => [size, 0, 0],
                    HookKind::PosixMemalign => [first, 0, size],
                    HookKind::Remap => [0, 0, size],
                    _ => [1, size, 0],
                };
                let bytes = Some(bytes_of(kind, arguments)).filter(|bytes| *bytes <= MOST);
                for _ in 0..2 {
                    let [a, b, c] = arguments;
                    placed.first(kind)(a, b, c, 0);
                    let total = truth.entry(kind.first_hook()).or_default();
                    total.calls += 1;
                    total.bytes = total.bytes.wrapping_add(bytes.unwrap_or(0));
                }
            }
        }
        assert_eq!(placed.counts(), truth, "interval {interval}");
    }
}

#[test]
fn products_that_cannot_be_granted_count_as_no_bytes() {
    let placed = Placed::new(NEVER, 6);
    placed.lead(HookKind::Calloc, zero);
    let mut truth = count(0, 0);
    for (a, b, bytes) in [
        (1 << 32, 1 << 32, 0),
        (1 << 31, 1 << 32, 0),
        (u64::MAX, u64::MAX, 0),
        (u64::MAX, 2, 0),
        (0, u64::MAX, 0),
        (u64::MAX, 0, 0),
        (1 << 31, 1 << 31, 1 << 62),
        ((1 << 31) - 1, (1 << 31) - 1, ((1 << 31) - 1) * ((1 << 31) - 1)),
        (3, 5, 15),
    ] {
        for _ in 0..2 {
            placed.first(HookKind::Calloc)(a, b, 0, 0);
            truth.calls += 1;
            truth.bytes = truth.bytes.wrapping_add(bytes);
            let counts = placed.counts();
            assert_eq!(counts[&HookKind::Calloc.first_hook()], truth, "{a:#x} {b:#x}");
        }
    }
}

/// Eight threads call malloc and free.
fn crowd(placed: &Placed) -> Counts {
    const CALLS: u64 = 100_000;
    let (malloc, free) = (placed.first(HookKind::Malloc), placed.first(HookKind::Free));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..CALLS {
                    let block = malloc(24, 0, 0, 0);
                    free(block, 0, 0, 0);
                }
            });
        }
    });
    [
        (HookKind::Malloc.first_hook(), count(8 * CALLS, 8 * CALLS * 24)),
        (HookKind::Free.first_hook(), count(8 * CALLS, 0)),
    ]
    .into()
}

#[test]
fn eight_threads_are_counted_exactly_in_rows_of_their_own() {
    for interval in [NEVER, 1 << 10] {
        let placed = Placed::new(interval, 6);
        assert_eq!(crowd(&placed), placed.counts());
        let rows = placed.rows_taken();
        assert!((1..=8).contains(&rows), "{rows} rows");
    }
}

#[test]
fn threads_share_one_row_exactly_when_rows_or_the_index_are_used_up() {
    for interval in [NEVER, 1 << 10, 1] {
        let placed = Placed::new(interval, 6);
        placed.use_up_rows();
        assert_eq!(crowd(&placed), placed.counts());
        let placed = Placed::new(interval, 6);
        placed.fill_index(CLAIMED);
        assert_eq!(crowd(&placed), placed.counts());
        assert_eq!(placed.rows_taken(), 0);
    }
}

#[test]
fn more_threads_than_rows_are_counted_exactly() {
    const THREADS: u64 = 400;
    let placed = Placed::new(NEVER, 6);
    // The last rows only, for not every machine that tests bears 2000 threads.
    placed.set_word(heapattach_abi::region::ROWS_TAKEN, ROWS as u64 - 1 - THREADS / 2);
    let malloc = placed.first(HookKind::Malloc);
    // Alive at the same time, so that their thread pointers differ.
    let barrier = Barrier::new(index(THREADS));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let run = || {
                barrier.wait();
                for _ in 0..100 {
                    malloc(3, 0, 0, 0);
                }
                barrier.wait();
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, run).unwrap();
        }
    });
    let truth = count(100 * THREADS, 300 * THREADS);
    assert_eq!(placed.counts(), [(HookKind::Malloc.first_hook(), truth)].into());
    let known = placed.entries().filter(|(key, _)| *key != 0).count();
    assert_eq!(known as u64, THREADS / 2);
}

#[test]
fn hooks_that_are_off_pass_through_and_record_nothing() {
    for interval in [1, 1 << 10] {
        let placed = placed(interval);
        placed.disable();
        for round in 0..3 {
            for hook in 0..MAX_HOOKS {
                assert_eq!(placed.hook(hook)(1, 1 << 20, 3, 0), 4 + (1 << 20));
            }
            // Off from the start; off for a thread that has a row.
            if round == 0 {
                assert_eq!((placed.counts(), placed.rows_taken()), (Counts::new(), 0));
                placed.enable(interval, 0);
                placed.first(HookKind::Malloc)(1, 0, 0, 0);
                placed.drain();
                placed.disable();
            }
        }
        assert_eq!(placed.records(), []);
    }
}

#[test]
fn a_stale_heartbeat_switches_the_hooks_off_within_its_ticks() {
    for shared in [false, true] {
        let placed = Placed::new(1, 6);
        if shared {
            placed.use_up_rows();
        }
        let malloc = placed.first(HookKind::Malloc);
        let calls = || placed.counts()[&HookKind::Malloc.first_hook()].calls;
        placed.set_deadline(u64::MAX);
        repeat(5000, || malloc(1, 0, 0, 0));
        assert_eq!((placed.state(), calls()), ((true, false), 5000));
        placed.set_deadline(1);
        repeat(5000, || malloc(1, 0, 0, 0));
        assert_eq!(placed.state(), (false, true));
        assert!((5000..=5000 + TICKS).contains(&calls()), "{} calls", calls());
        // A later beat brings them back.
        let before = calls();
        placed.set_deadline(0);
        placed.enable(1, 0);
        malloc(1, 0, 0, 0);
        assert_eq!(calls(), before + 1);
    }
}

#[test]
fn a_stale_heartbeat_is_seen_on_the_first_call_of_a_thread() {
    for shared in [false, true] {
        let placed = Placed::new(NEVER, 6);
        if shared {
            placed.use_up_rows();
        }
        placed.set_deadline(1);
        placed.first(HookKind::Malloc)(1, 0, 0, 0);
        assert_eq!(placed.state(), (false, true));
    }
}
