//! A target that writes anything at all into the shared region: reading it never panics, ends, and
//! holds no more than a window.

#[path = "region/mod.rs"]
mod region;

use std::sync::Arc;

use heapattach_abi::ring::{self, Kind};
use heapattach_injector::{
    event::{StackId, What},
    ring::{Intervals, Reader},
};
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
