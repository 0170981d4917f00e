//! Where everything is recorded: what each call tells, and in which order.

use std::cell::Cell;

use heapattach_abi::{
    kind::HookKind::{
        self, Calloc, Free, Malloc, Map, Memalign, PosixMemalign, Realloc, Remap, Unmap,
    },
    ring::{Kind, RESERVE_SHIFT},
    row,
};

use crate::{
    audit::audit,
    originals::{Call, no_memory, repeat, zero},
    placed::{Placed, Record},
    section::section,
    steps::trace,
};

const MREMAP_DONTUNMAP: u64 = 4;

const SYSCALL: [u8; 2] = [0x0f, 0x05];

/// What is told of a record, without its stamp and its stack.
type Told = (Kind, usize, u64, u64);

fn told(placed: &Placed) -> Vec<Told> {
    let told = |r: &Record| (r.kind, r.hook, r.address, r.size);
    let records = audit(placed);
    placed.reset(&records);
    records.iter().map(told).collect()
}

#[test]
fn blocks_are_told_by_address_size_and_hook_after_they_are_there() {
    let placed = Placed::new(1, 6);
    for kind in [Malloc, Calloc, Memalign, Realloc] {
        for hook in kind.first_hook()..kind.first_hook() + kind.hooks() {
            let arguments = match kind {
                Malloc => [48, 1, 1],
                Calloc => [6, 8, 1],
                Realloc => [0, 48, 1],
                _ => [16, 48, 1],
            };
            let [a, b, c] = arguments;
            let block = placed.hook(hook)(a, b, c, 0);
            assert_eq!(told(&placed), [(Kind::Allocated, hook, block, 48)]);
        }
    }
    for hook in PosixMemalign.first_hook()..PosixMemalign.first_hook() + PosixMemalign.hooks() {
        let place = Cell::new(0_u64);
        assert_eq!(placed.hook(hook)(place.as_ptr().expose_provenance() as u64, 16, 48, 0), 0);
        assert_eq!(told(&placed), [(Kind::Allocated, hook, place.get(), 48)]);
    }
}

#[test]
fn mappings_are_told_with_what_they_take_the_place_of() {
    let placed = Placed::new(1, 6);
    let [map, unmap, remap] = [Map, Unmap, Remap].map(|kind| placed.first(kind));
    let [m, u, r] = [Map, Unmap, Remap].map(HookKind::first_hook);
    let at = map(0, 8192, 3, 0x22);
    assert_eq!(told(&placed), [(Kind::Mapped, m, at, 8192)]);
    let to = remap(at, 8192, 4096, 1);
    assert_eq!(told(&placed), [(Kind::Unmapped, r, at, 8192), (Kind::Remapped, r, to, 4096)]);
    unmap(to, 4096, 0, 0);
    assert_eq!(told(&placed), [(Kind::Unmapped, u, to, 4096)]);
    // The old pages stay.
    let copy = remap(at, 0, 4096, 1);
    assert_eq!(told(&placed), [(Kind::Mapped, r, copy, 4096)]);
    let moved = remap(at, 4096, 4096, 1 | MREMAP_DONTUNMAP);
    assert_eq!(told(&placed), [(Kind::Mapped, r, moved, 4096)]);
}

thread_local! {
    static WATCHED: Cell<Option<(&'static Placed, usize)>> = const { Cell::new(None) };
}

/// An original that sees how much was told before it.
extern "C" fn see(block: u64, _: u64, _: u64, _: u64) -> u64 {
    let placed = WATCHED.get().unwrap().0;
    WATCHED.set(Some((placed, placed.records().len())));
    block + 4096
}

#[test]
fn a_free_is_told_before_it_and_a_malloc_after_it() {
    let placed: &'static Placed = Box::leak(Box::new(Placed::new(1, 6)));
    HookKind::ALL.into_iter().for_each(|kind| placed.lead(kind, see));
    let place = [7_u64; 2];
    let first = place.as_ptr().expose_provenance() as u64;
    for (kind, before, after) in [
        (Free, 1, 0),
        (Malloc, 0, 1),
        (Calloc, 0, 1),
        (Realloc, 1, 1),
        (Memalign, 0, 1),
        (Map, 0, 1),
        (Unmap, 1, 1),
        (Remap, 1, 1),
    ] {
        WATCHED.set(Some((placed, 0)));
        placed.first(kind)(first, 64, 64, 0);
        let seen = WATCHED.get().unwrap().1;
        let records = placed.records();
        assert_eq!((seen, records.len() - seen), (before, after), "{kind:?}");
        placed.reset(&records);
    }
}

#[test]
fn what_fails_tells_nothing() {
    let placed = Placed::new(1, 6);
    for kind in [Malloc, Calloc, Memalign, Realloc] {
        placed.lead(kind, zero);
    }
    placed.lead(PosixMemalign, no_memory);
    placed.lead(Map, no_memory);
    placed.lead(Remap, no_memory);
    let place = Cell::new(0_u64);
    placed.first(Malloc)(5, 0, 0, 0);
    placed.first(Malloc)(u64::MAX, 0, 0, 0);
    placed.first(Calloc)(1 << 40, 1 << 40, 0, 0);
    placed.first(Memalign)(16, 5, 0, 0);
    placed.first(Realloc)(0, 5, 0, 0);
    placed.first(PosixMemalign)(place.as_ptr().expose_provenance() as u64, 3, 5, 0);
    placed.first(Map)(0, 4096, 0, 0);
    placed.first(Remap)(4096, 0, 4096, 0);
    placed.first(Free)(0, 0, 0, 0);
    assert_eq!(told(&placed), []);
}

#[test]
fn what_was_announced_and_fails_is_restored_by_its_stamp() {
    let placed = Placed::new(1, 6);
    placed.lead(Realloc, zero);
    placed.lead(Unmap, no_memory);
    placed.lead(Remap, no_memory);
    for (kind, announced) in
        [(Realloc, Kind::Freed), (Unmap, Kind::Unmapped), (Remap, Kind::Unmapped)]
    {
        // So that no stamp is 0.
        placed.first(Free)(32, 0, 0, 0);
        placed.first(kind)(0x7000, 4096, 8192, 0);
        let size = if kind == Realloc { 0 } else { 4096 };
        let hook = kind.first_hook();
        assert_eq!(
            told(&placed),
            [
                (Kind::Freed, Free.first_hook(), 32, 0),
                (announced, hook, 0x7000, size),
                (Kind::Restored, hook, 0x7000, 1),
            ]
        );
    }
}

#[test]
fn a_realloc_to_nothing_that_answers_null_has_freed() {
    let placed = Placed::new(1, 6);
    placed.lead(Realloc, zero);
    placed.first(Realloc)(0x7000, 0, 0, 0);
    assert_eq!(told(&placed), [(Kind::Freed, Realloc.first_hook(), 0x7000, 0)]);
}

#[test]
fn a_realloc_tells_the_old_block_then_the_new_one() {
    let placed = Placed::new(1, 6);
    let block = placed.first(Realloc)(0x7000, 80, 0, 0);
    let hook = Realloc.first_hook();
    assert_eq!(
        told(&placed),
        [(Kind::Freed, hook, 0x7000, 0), (Kind::Reallocated, hook, block, 80)]
    );
}

#[test]
fn a_full_ring_counts_what_it_drops_and_keeps_room_for_frees() {
    const BITS: u32 = 6;
    const ROOM: u64 = 1 << BITS;
    const RESERVE: u64 = ROOM >> RESERVE_SHIFT;
    for shared in [false, true] {
        let placed = Placed::new(1, BITS);
        if shared {
            placed.use_up_rows();
        }
        let [malloc, free, realloc]: [Call; 3] =
            [Malloc, Free, Realloc].map(|kind| placed.first(kind));
        let dropped = || (placed.total(row::DROPPED_BLOCKS), placed.total(row::DROPPED_FREES));
        repeat(100, || malloc(1, 0, 0, 0));
        assert_eq!(dropped(), (100 - (ROOM - RESERVE), 0));
        repeat(RESERVE, || free(16, 0, 0, 0));
        assert_eq!((placed.records().len() as u64, dropped().1), (ROOM, 0));
        free(16, 0, 0, 0);
        realloc(16, 1, 0, 0);
        assert_eq!(dropped(), (100 - (ROOM - RESERVE) + 1, 2));
        assert_eq!(placed.counts()[&Malloc.first_hook()].calls, 100);
        // With room again it goes on, and the reader finds every slot by its position.
        let stamp = placed.records().last().unwrap().stamp;
        placed.drain();
        let block = malloc(9, 0, 0, 0);
        let [record] = placed.records()[..] else { panic!("one record") };
        assert_eq!((record.kind, record.address, record.size), (Kind::Allocated, block, 9));
        assert_eq!(record.stamp, stamp + 1);
        assert_eq!(placed.total(row::BUSY), 0);
    }
}

#[test]
fn who_waits_for_room_lets_others_run_and_gives_up_when_nobody_reads() {
    const ROOM: u64 = 16;
    let system_calls = |deadline, yield_mask| {
        let placed = Placed::new(1, ROOM.ilog2());
        repeat(ROOM, || placed.first(Free)(16, 0, 0, 0));
        placed.set_patience(1000, yield_mask);
        placed.set_deadline(deadline);
        let code = section();
        let steps = trace(&placed, placed.first(Free), [16, 0, 0, 0]);
        let offsets =
            steps.iter().map(|step| usize::try_from(step.address() - placed.code().start).unwrap());
        let calls = offsets.filter(|&at| code[at..].starts_with(&SYSCALL)).count();
        assert_eq!(placed.total(row::DROPPED_FREES), 1);
        // A thousand looks are some 70,000 instructions; whether the heartbeat goes on is asked at
        // each 128th.
        (calls, steps.len() > 10_000)
    };
    assert_eq!(system_calls(0, 0), (0, true), "none where they may be forbidden");
    assert_eq!(system_calls(0, 127), (7, true));
    assert_eq!(system_calls(u64::MAX, 127), (7, true));
    assert_eq!(system_calls(1, 127), (0, false), "the deadline is long past");
}

#[test]
fn who_waits_for_room_has_it_when_there_is_some() {
    const CALLS: u64 = 10_000;
    let placed = Placed::new(1, 4);
    placed.set_patience(u32::MAX, 63);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| repeat(CALLS, || placed.first(Free)(16, 0, 0, 0)));
        while !waiting.is_finished() {
            placed.drain();
            std::thread::yield_now();
        }
    });
    assert_eq!(placed.total(row::DROPPED_FREES), 0);
    assert_eq!(placed.counts()[&Free.first_hook()].calls, CALLS);
}

#[test]
fn an_announcement_without_room_is_not_restored() {
    let placed = Placed::new(1, 4);
    placed.lead(Realloc, zero);
    repeat(16, || placed.first(Free)(16, 0, 0, 0));
    placed.first(Realloc)(16, 1, 0, 0);
    assert!(placed.records().iter().all(|record| record.kind == Kind::Freed));
    assert_eq!(placed.total(row::DROPPED_FREES), 1);
}
