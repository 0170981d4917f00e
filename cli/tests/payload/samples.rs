//! Where samples are recorded: which blocks, and what is known of them until they are freed.

use heapattach_abi::{
    kind::HookKind::{self, Calloc, Free, Malloc, Memalign, PosixMemalign, Realloc},
    ring::Kind,
    row,
};

use crate::{
    audit::{audit, live_samples},
    originals::{repeat, zero},
    placed::Placed,
};

const INTERVAL: u64 = 1 << 16;

#[test]
fn a_block_of_an_interval_is_always_recorded_and_its_free_once_by_its_stamp() {
    let placed = Placed::new(INTERVAL, 8);
    let place = std::cell::Cell::new(0_u64);
    let out = place.as_ptr().expose_provenance() as u64;
    for (round, kind) in
        [Malloc, Calloc, Realloc, Memalign, PosixMemalign].into_iter().cycle().take(20).enumerate()
    {
        let size = INTERVAL << (round % 3);
        let arguments = match kind {
            Malloc => [size, 0, 0],
            Calloc => [2, size / 2, 0],
            Realloc => [0, size, 0],
            PosixMemalign => [out, 16, size],
            _ => [16, size, 0],
        };
        let [a, b, c] = arguments;
        let answer = placed.first(kind)(a, b, c, 0);
        let block = if kind == PosixMemalign { place.get() } else { answer };
        let [allocated] = audit(&placed)[..] else { panic!("one record of {kind:?}") };
        assert_eq!((allocated.kind, allocated.address), (Kind::Allocated, block));
        assert_eq!((allocated.size, allocated.hook), (size, kind.first_hook()));
        assert_eq!((placed.filter_sum(), placed.table_entries()), (1, 1));
        // Twice, as only a broken program does.
        placed.first(Free)(block, 0, 0, 0);
        placed.first(Free)(block, 0, 0, 0);
        let records = audit(&placed);
        let [_, freed] = records[..] else { panic!("two records of {kind:?}") };
        assert_eq!((freed.kind, freed.address), (Kind::FreedSample, block));
        assert_eq!((freed.size, freed.hook), (allocated.stamp, Free.first_hook()));
        assert_eq!((placed.filter_sum(), placed.table_entries()), (0, 0));
        placed.reset(&records);
    }
}

#[test]
fn the_interval_a_sample_was_drawn_with_is_named() {
    let placed = Placed::new(INTERVAL, 8);
    for number in [0, 1, 7, 63] {
        placed.set_interval(INTERVAL << (number % 3), number);
        // The slow path is where a thread goes over.
        placed.first(Malloc)(INTERVAL << 3, 0, 0, 0);
        placed.drain();
        placed.first(Malloc)(INTERVAL << 3, 0, 0, 0);
        let [record] = placed.records()[..] else { panic!("one record") };
        assert_eq!(record.interval_number, usize::from(number));
        assert_eq!(placed.row(placed.own_row(), row::THRESHOLD), INTERVAL << (number % 3));
    }
}

#[test]
fn a_sample_by_the_countdown_is_recorded_and_its_neighbours_are_not() {
    let placed = Placed::new(INTERVAL, 8);
    let malloc = placed.first(Malloc);
    let free = placed.first(Free);
    malloc(0, 0, 0, 0);
    let row = placed.own_row();
    placed.set_row(row, row::COUNTDOWN, 100);
    let blocks = [60, 40, 1, 0].map(|size| malloc(size, 0, 0, 0));
    let [record] = audit(&placed)[..] else { panic!("one record") };
    assert_eq!((record.address, record.size), (blocks[2], 1));
    for block in blocks {
        free(block, 0, 0, 0);
    }
    let [_, freed] = audit(&placed)[..] else { panic!("two records") };
    assert_eq!((freed.kind, freed.address, freed.size), (Kind::FreedSample, blocks[2], 0));
}

#[test]
fn a_block_in_exchange_for_a_sample_is_announced_and_told() {
    let placed = Placed::new(INTERVAL, 8);
    let [malloc, realloc] = [Malloc, Realloc].map(|kind| placed.first(kind));
    let block = malloc(INTERVAL, 0, 0, 0);
    let larger = realloc(block, 2 * INTERVAL, 0, 0);
    let kinds = |records: &[crate::placed::Record]| -> Vec<_> {
        records.iter().map(|r| (r.kind, r.address, r.size)).collect()
    };
    let records = audit(&placed);
    assert_eq!(
        kinds(&records),
        [
            (Kind::Allocated, block, INTERVAL),
            (Kind::FreedSample, block, 0),
            (Kind::Reallocated, larger, 2 * INTERVAL),
        ]
    );
    // To a size that is not a sample: the sample is gone, and nothing else is told.
    placed.set_row(placed.own_row(), row::COUNTDOWN, INTERVAL);
    let small = realloc(larger, 16, 0, 0);
    let records = audit(&placed);
    assert_eq!(kinds(&records)[3..], [(Kind::FreedSample, larger, 2)]);
    // Of a block that is not a sample to one that is.
    let last = realloc(small, INTERVAL, 0, 0);
    let records = audit(&placed);
    assert_eq!(kinds(&records)[4..], [(Kind::Allocated, last, INTERVAL)]);
    assert_eq!((placed.filter_sum(), placed.table_entries()), (1, 1));
}

#[test]
fn a_failed_realloc_puts_the_sample_back() {
    let placed = Placed::new(INTERVAL, 8);
    let [malloc, realloc, free] = [Malloc, Realloc, Free].map(|kind| placed.first(kind));
    placed.lead(Realloc, zero);
    let block = malloc(INTERVAL, 0, 0, 0);
    for size in [16, INTERVAL, u64::MAX] {
        realloc(block, size, 0, 0);
        let records = audit(&placed);
        let [.., announced, restored] = &records[..] else { panic!("two records more") };
        assert_eq!((announced.kind, announced.size), (Kind::FreedSample, 0));
        assert_eq!((restored.kind, restored.size), (Kind::Restored, announced.stamp));
        assert_eq!(live_samples(&records), [(0, block)].into());
    }
    free(block, 0, 0, 0);
    let records = audit(&placed);
    let last = records.last().unwrap();
    assert_eq!((last.kind, last.size), (Kind::FreedSample, 0));
    assert_eq!((placed.filter_sum(), placed.table_entries()), (0, 0));
}

#[test]
fn a_realloc_of_a_sample_to_nothing_has_freed_it() {
    let placed = Placed::new(INTERVAL, 8);
    placed.lead(Realloc, zero);
    let block = placed.first(Malloc)(INTERVAL, 0, 0, 0);
    placed.first(Realloc)(block, 0, 0, 0);
    let records = audit(&placed);
    assert_eq!(records.last().unwrap().kind, Kind::FreedSample);
    assert!(live_samples(&records).is_empty());
    assert_eq!((placed.filter_sum(), placed.table_entries()), (0, 0));
}

#[test]
fn a_sample_without_room_in_the_ring_is_not_remembered() {
    let placed = Placed::new(INTERVAL, 4);
    let [malloc, free] = [Malloc, Free].map(|kind| placed.first(kind));
    let blocks: Vec<_> = (0..20).map(|_| malloc(INTERVAL, 0, 0, 0)).collect();
    assert_eq!((placed.table_entries(), placed.total(row::DROPPED_BLOCKS)), (14, 6));
    for block in &blocks {
        free(*block, 0, 0, 0);
    }
    assert_eq!((placed.table_entries(), placed.filter_sum()), (0, 0));
    assert_eq!(placed.total(row::DROPPED_FREES), 12);
}

#[test]
fn a_sample_without_room_in_the_table_leaves_an_empty_record() {
    let placed = Placed::new(INTERVAL, 8);
    let kind: HookKind = Malloc;
    // The same block again and again: its two buckets fill.
    placed.lead(kind, crate::originals::sum);
    let room = Placed::places_of(INTERVAL).count() as u64;
    repeat(room + 3, || placed.first(kind)(INTERVAL, 0, 0, 0));
    assert_eq!(placed.total(row::DROPPED_SAMPLES), 3);
    let records = placed.records();
    assert_eq!(records.iter().filter(|r| r.kind == Kind::Nothing).count(), 3);
    assert_eq!(placed.stamps_of(INTERVAL).len() as u64, room);
}

#[test]
fn many_threads_trade_samples_and_nothing_stays_behind() {
    let placed = Placed::new(1 << 8, 16);
    let [malloc, free, realloc] = [Malloc, Free, Realloc].map(|kind| placed.first(kind));
    // What one thread got, another frees.
    let (give, take) = std::sync::mpsc::channel::<u64>();
    let take = std::sync::Mutex::new(take);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let give = give.clone();
            scope.spawn(move || {
                for call in 0..5_000 {
                    let block = malloc(16 + call % 300, 0, 0, 0);
                    give.send(realloc(block, call % 400, 0, 0)).unwrap();
                }
            });
            scope.spawn(|| {
                for _ in 0..5_000 {
                    let block = take.lock().unwrap().recv().unwrap();
                    free(block, 0, 0, 0);
                }
            });
        }
    });
    let records = audit(&placed);
    assert!(records.len() > 10_000, "{} records", records.len());
    assert!(live_samples(&records).is_empty());
    assert_eq!((placed.filter_sum(), placed.table_entries()), (0, 0));
}
