//! A target that writes anything at all into the shared region: reading it never panics, ends, and
//! holds no more than a window.

#[path = "region/mod.rs"]
mod region;

use std::{collections::BTreeSet, sync::Arc, thread, time::Duration};

use heapattach_abi::ring::{self, Kind};
use heapattach_injector::watch::{Intervals, Reader};
use heapattach_process::event::{Event, StackId, What};
use proptest::prelude::*;
use region::{Region, reader};

fn stamps(reader: &mut Reader, region: &Region) -> Vec<u64> {
    let mut stamps = Vec::new();
    reader.drain(&region.shared, &region.memory, |event, _| stamps.push(event.stamp)).unwrap();
    stamps
}

#[test]
fn records_of_several_rings_are_told_by_their_stamps_and_gaps_are_waited_for() {
    let (region, mut reader) = (Region::new(), reader());
    let alloc = ring::pack(0x1000, Kind::Allocated, 3, 0);
    let free = ring::pack(0x1000, Kind::Freed, 4, 0);
    region.write(1, 0, [free, 0, 1]);
    region.write(0, 0, [alloc, 64, 0]);
    region.write(1, 1, [alloc, 32, 3]);
    assert_eq!(stamps(&mut reader, &region), [0, 1], "stamp 2 is missing still");
    region.write(5, 0, [free, 0, 2]);
    let mut told = Vec::new();
    reader.drain(&region.shared, &region.memory, |event, call| told.push((event, call))).unwrap();
    assert_eq!(told.iter().map(|(e, _)| e.stamp).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((told[0].1.hook, told[1].1.hook, told[1].1.stack), (4, 3, StackId(1)));
    let What::Allocated { size, interval, .. } = told[1].0.what else { panic!("{told:?}") };
    assert_eq!((size, interval, reader.torn), (32, 512, 0));
}

#[test]
fn a_record_that_is_never_finished_is_given_up_at_the_end() {
    let (region, mut reader) = (Region::new(), reader());
    let alloc = ring::pack(0x1000, Kind::Allocated, 3, 0);
    // Position 0 was taken with stamp 0, and its thread is gone.
    region.write(2, 1, [alloc, 64, 1]);
    assert!(stamps(&mut reader, &region).is_empty());
    let mut told = Vec::new();
    reader.finish(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told, reader.torn), (vec![1], 2));
}

#[test]
fn a_record_in_the_middle_of_being_written_is_passed_over_at_a_moment_and_told_later() {
    let (region, mut reader) = (Region::new(), reader());
    let alloc = |at| ring::pack(at, Kind::Allocated, 3, 0);
    let free = ring::pack(0x1000, Kind::Freed, 4, 0);
    region.write(1, 0, [alloc(0x1000), 64, 0]);
    // Ring 2: position 0 was taken with stamp 1, and is not written. Ring 40, which many share: the same
    // with stamp 3, and another thread's record behind it.
    region.write(2, 1, [alloc(0x2000), 64, 2]);
    region.write(40, 1, [alloc(0x4000), 64, 4]);
    assert_eq!(stamps(&mut reader, &region), [0], "it is waited for");
    let settle = |reader: &mut Reader| {
        let mut told = Vec::new();
        reader.settle(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
        told
    };
    assert_eq!((settle(&mut reader), reader.unfinished()), (vec![2, 4], 2));
    assert_eq!(settle(&mut reader), [], "the same moment");
    // What comes afterwards may depend on them, and waits. The slots are not given away meanwhile.
    region.write(1, 1, [alloc(0x1000), 64, 5]);
    assert_eq!(stamps(&mut reader, &region), []);
    region.fill(2, 0, [free, 0, 1]);
    assert_eq!(stamps(&mut reader, &region), [1]);
    region.fill(40, 0, [alloc(0x5000), 32, 3]);
    assert_eq!(stamps(&mut reader, &region), [3, 5]);
    assert_eq!((reader.unfinished(), reader.torn), (0, 0));
}

#[test]
fn what_was_passed_over_and_never_comes_is_told_as_torn_at_the_end() {
    let (region, mut reader) = (Region::new(), reader());
    region.write(2, 1, [ring::pack(0x1000, Kind::Allocated, 3, 0), 64, 1]);
    reader.settle(&region.shared, &region.memory, |_, _| {}).unwrap();
    assert_eq!((reader.unfinished(), reader.torn), (1, 0));
    reader.finish(&region.shared, &region.memory, |_, _| {}).unwrap();
    assert_eq!((reader.unfinished(), reader.torn), (0, 1));
}

#[test]
fn the_time_that_a_target_is_kept_stopped_is_none_that_its_threads_had_to_finish_a_record() {
    const PATIENCE: Duration = Duration::from_millis(20);
    let (region, reader) = (Region::new(), reader());
    let mut reader = reader.with_patience(PATIENCE);
    for _ in 0..2 {
        region.write(2, 1, record(1));
        reader.settle(&region.shared, &region.memory, |_, _| {}).unwrap();
        thread::sleep(2 * PATIENCE);
        assert!(stamps(&mut reader, &region).is_empty());
    }
    assert_eq!((reader.unfinished(), reader.torn), (1, 0));
    thread::sleep(2 * PATIENCE);
    assert!(stamps(&mut reader, &region).is_empty());
    assert_eq!((reader.unfinished(), reader.torn), (0, 1), "it has had its time");
}

#[test]
fn a_record_may_name_an_interval_that_is_newer_than_the_reading() {
    let region = Region::new();
    let intervals = Arc::new(Intervals::new(512));
    let mut reader = Reader::new(region::BITS, Arc::clone(&intervals));
    region.write(1, 0, record(0));
    region.write(1, 1, [ring::pack(0x2000, Kind::Allocated, 3, 1), 64, 1]);
    let mut told = Vec::new();
    let tell = |event: Event, _| {
        if told.is_empty() {
            assert_eq!(intervals.add(1024), Some(1));
        }
        if let What::Allocated { interval, .. } = event.what {
            told.push(interval);
        }
    };
    reader.drain(&region.shared, &region.memory, tell).unwrap();
    assert_eq!((told, reader.torn), (vec![512, 1024], 0));
}

#[test]
fn what_makes_no_sense_is_told_apart_from_what_was_never_finished() {
    let region = Region::new();
    let mut reader = reader();
    region.write(1, 0, record(0));
    region.write(1, 1, record(0));
    region.write(1, 2, [0x1000, 64, 1]);
    region.write(1, 3, record(3));
    assert_eq!(stamps(&mut reader, &region), [0]);
    assert_eq!((reader.torn, reader.absurd), (2, 2), "a number twice, and no kind at all");
    let mut told = Vec::new();
    reader.finish(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told, reader.torn, reader.absurd), (vec![3], 3, 2), "the second is missing");
}

/// So many threads filled their rings, which together hold more than may wait, but for some records.
const WRITERS: u64 = 12;
const RING: u64 = 1 << 17;
const RECORDS: u64 = WRITERS * RING;

fn full_but_for(is_missing: impl Fn(u64) -> bool) -> (Region, Reader) {
    let bits = RING.ilog2();
    let region = Region::of_rings(bits);
    for stamp in (0..RECORDS).filter(|stamp| !is_missing(*stamp)) {
        let number = usize::try_from(1 + stamp % WRITERS).unwrap();
        region.write(number, stamp / WRITERS, record(stamp));
    }
    (region, Reader::new(bits, Arc::new(Intervals::new(512))))
}

fn record(stamp: u64) -> [u64; 3] {
    [ring::pack(0x1000, Kind::Allocated, 3, 0), 64, stamp]
}

#[test]
fn what_is_behind_a_gap_stays_in_the_rings_where_no_more_may_wait() {
    let (region, mut reader) = full_but_for(|stamp| stamp == 0);
    assert!(stamps(&mut reader, &region).is_empty());
    assert!(stamps(&mut reader, &region).is_empty());
    assert_eq!((reader.told, reader.torn), (0, 0));
    region.fill(1, 0, record(0));
    let mut told = stamps(&mut reader, &region);
    told.extend(stamps(&mut reader, &region));
    assert_eq!((told == Vec::from_iter(0..RECORDS), reader.torn), (true, 0), "{}", told.len());
}

#[test]
fn who_waits_for_room_hears_of_the_reader_while_it_is_at_one_reading() {
    let (region, mut reader) = full_but_for(|stamp| stamp == 0);
    assert!(stamps(&mut reader, &region).is_empty());
    let looked = region.shared.word(&region.memory, heapattach_abi::region::LOOKED).unwrap();
    // About a million slots were taken in, and each thousand of them said so.
    assert!(looked > 500, "{looked}");
}

/// What waits for one record is told at once when that is there, and takes long.
#[test]
fn who_waits_for_room_hears_of_the_reader_while_it_tells_what_waited() {
    let (region, mut reader) = full_but_for(|stamp| stamp >= RECORDS / 2);
    // The last ring has the very first number; all others are one higher than they were.
    let late = usize::try_from(1 + WRITERS).unwrap();
    for stamp in 0..RECORDS / 2 {
        let number = usize::try_from(1 + stamp % WRITERS).unwrap();
        region.fill(number, stamp / WRITERS, record(stamp + 1));
    }
    assert!(stamps(&mut reader, &region).is_empty());
    region.write(late, 0, record(0));
    let looked = || region.shared.word(&region.memory, heapattach_abi::region::LOOKED).unwrap();
    let (mut shown, mut told) = (BTreeSet::new(), 0);
    let tell = |_, _| {
        shown.insert(looked());
        told += 1;
    };
    reader.drain(&region.shared, &region.memory, tell).unwrap();
    assert_eq!(told, 1 + RECORDS / 2);
    assert!(shown.len() > 100, "{}", shown.len());
}

#[test]
fn at_the_end_only_what_is_missing_is_given_up() {
    let is_missing = |stamp| stamp % 100_000 == 0;
    let (region, mut reader) = full_but_for(is_missing);
    let mut told = Vec::new();
    reader.finish(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    let wanted = Vec::from_iter((0..RECORDS).filter(|stamp| !is_missing(*stamp)));
    // Each is missed twice: where it should be in its ring, and among the stamps.
    let missing = RECORDS.div_ceil(100_000);
    assert_eq!((told == wanted, reader.torn), (true, 2 * missing));
}

/// Many threads share a ring. One has taken a place in it and no number yet when it loses its processor; the
/// others go on for as long as there is room, and its number is one beyond what may wait.
fn behind_one_that_is_far() -> (Region, Reader) {
    let bits = RING.ilog2();
    let region = Region::of_rings(bits);
    region.write(40, 1, record(0));
    for stamp in 1..RECORDS {
        let number = usize::try_from(1 + stamp % WRITERS).unwrap();
        region.write(number, (stamp - 1) / WRITERS, record(stamp));
    }
    region.fill(40, 0, record(RECORDS));
    (region, Reader::new(bits, Arc::new(Intervals::new(512))))
}

#[test]
fn what_is_behind_a_record_that_is_far_ahead_in_its_ring_is_told_in_its_turn() {
    let (region, mut reader) = behind_one_that_is_far();
    let mut told = stamps(&mut reader, &region);
    told.extend(stamps(&mut reader, &region));
    assert_eq!((told == Vec::from_iter(0..=RECORDS), reader.torn), (true, 0), "{}", told.len());
    let (region, mut reader) = behind_one_that_is_far();
    let mut told = Vec::new();
    reader.settle(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told == Vec::from_iter(0..=RECORDS), reader.torn), (true, 0), "{}", told.len());
}

#[test]
fn what_a_moment_had_no_room_for_at_first_is_not_missing() {
    let bits = RING.ilog2();
    let region = Region::of_rings(bits);
    let mut reader = Reader::new(bits, Arc::new(Intervals::new(512)));
    // A thread of ring 40 has a place and no number yet; what comes next is behind it. So rings before it are
    // read less far than rings after it.
    const BEHIND: u64 = 5000;
    for stamp in 0..RECORDS {
        let (number, position) = match stamp.checked_sub(BEHIND) {
            None => (40, 1 + stamp),
            Some(other) if other % 2 == 0 => (1 + other / 2 % (WRITERS / 2), other / WRITERS),
            Some(other) => (50 + other / 2 % (WRITERS / 2), other / WRITERS),
        };
        region.write(usize::try_from(number).unwrap(), position, record(stamp));
    }
    let mut told = Vec::new();
    reader.settle(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told == Vec::from_iter(0..RECORDS), reader.torn), (true, 0), "{}", told.len());
    assert_eq!(reader.unfinished(), 1);
}

const BEHIND: u64 = 3000;

#[test]
fn a_record_that_was_begun_at_a_moment_may_be_numbered_as_late_as_it_likes() {
    let bits = RING.ilog2();
    let region = Region::of_rings(bits);
    let mut reader = Reader::new(bits, Arc::new(Intervals::new(512)));
    region.write(1, 0, record(0));
    // Ring 30: a place was taken with stamp 1. Ring 31: one without a number.
    region.write(30, 1, record(2));
    region.write(31, 1, record(3));
    let mut told = Vec::new();
    reader.settle(&region.shared, &region.memory, |event, _| told.push(event.stamp)).unwrap();
    assert_eq!((told, reader.unfinished()), (vec![0, 2, 3], 2));
    // Others go on, and what they record waits for the first of the two.
    for stamp in 4..RECORDS {
        let number = usize::try_from(2 + stamp % WRITERS).unwrap();
        region.write(number, (stamp - 4) / WRITERS, record(stamp));
    }
    // So many behind the second one that no more of its ring may wait for so long.
    for behind in 1..=BEHIND {
        region.write(31, 1 + behind, record(RECORDS + behind));
    }
    assert!(stamps(&mut reader, &region).is_empty());
    region.fill(31, 0, record(RECORDS));
    assert!(stamps(&mut reader, &region).is_empty());
    region.fill(30, 0, record(1));
    let mut told = stamps(&mut reader, &region);
    told.extend(stamps(&mut reader, &region));
    told.extend(stamps(&mut reader, &region));
    let wanted: Vec<u64> = std::iter::once(1).chain(4..=RECORDS + BEHIND).collect();
    assert_eq!((told == wanted, reader.torn, reader.unfinished()), (true, 0, 0), "{}", told.len());
}

/// A word that is often nearly right.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..300_u64,
        (0..300_u64).prop_map(|n| u64::MAX - n),
        (0..300_u64, 0..3_u32).prop_map(|(position, stack)| ring::seal(position, stack)),
        (any::<u64>(), 0..16_u64, 0..64_u64, 0..64_u64).prop_map(|(a, kind, hook, interval)| {
            a & ring::ADDRESS_MASK | kind << 48 | hook << 52 | interval << 58
        }),
        Just(1 << 63),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_words_in_the_region_are_read_without_panic_and_within_bounds(
        rounds in prop::collection::vec(prop::collection::vec((any::<u16>(), word()), 0..400), 1..4),
    ) {
        Region::new().explore(&rounds);
    }
}
