//! The live set and the mappings against models too simple to be wrong.

use std::collections::{BTreeMap, HashMap};

use heapattach_process::addr::RemoteAddr;
use proptest::prelude::*;

use crate::{
    Tick,
    block::{Block, Kind, RowId},
    live::LiveSet,
    mappings::Mappings,
};

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { at: u64 },
    Free { at: u64, named: Option<usize> },
    Restore { step: usize },
}

/// Few addresses, so that they are used again and again; many sets grow beyond their first table.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = |addresses: u64| {
        prop_oneof![
            4 => (0..addresses).prop_map(|n| Step::Allocate { at: n * 16 }),
            2 => (0..addresses, prop::option::of(0..5usize))
                .prop_map(|(n, named)| Step::Free { at: n * 16, named }),
            1 => (0..6usize).prop_map(|step| Step::Restore { step }),
        ]
    };
    prop_oneof![
        prop::collection::vec(step(8), 0..200),
        prop::collection::vec(step(2_000), 0..4_000),
    ]
}

fn block(at: u64, stamp: u64) -> Block {
    Block::new(RemoteAddr::new(at), stamp, Tick(0), Kind::new(RowId(1), at + stamp, 1))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_live_set_is_a_map_from_addresses_to_blocks(steps in steps()) {
        let mut live = LiveSet::new(usize::MAX);
        let mut model: HashMap<u64, u64> = HashMap::new();
        let mut freed: HashMap<u64, (u64, u64)> = HashMap::new();
        let (mut missed, mut unknown) = (0, 0);
        for (stamp, step) in (0u64..).zip(steps) {
            match step {
                Step::Allocate { at } => {
                    let old = model.insert(at, stamp);
                    missed += u64::from(old.is_some());
                    let arrival = live.allocated(block(at, stamp));
                    prop_assert_eq!(arrival.missed, old.map(|name| block(at, name)));
                }
                // By the right name mostly, sometimes by that of a neighbour in time.
                Step::Free { at, named } => {
                    let there = model.get(&at).copied();
                    let name = named.map(|n| match (n, there) {
                        (0, Some(stamp)) => stamp.saturating_sub(1),
                        (1, Some(stamp)) => stamp + 1,
                        (_, other) => other.unwrap_or(stamp),
                    });
                    let gone = there.filter(|&stamp| name.is_none_or(|name| stamp <= name));
                    if let Some(born) = gone {
                        model.remove(&at);
                        if name.is_none_or(|name| name == born) {
                            freed.insert(stamp, (at, born));
                        } else {
                            missed += 1;
                        }
                    }
                    unknown += u64::from(name.is_none() && gone.is_none());
                    let left = live.freed(Some(stamp), Tick(0), RemoteAddr::new(at), name);
                    prop_assert_eq!(left, gone.map(|born| block(at, born)));
                }
                Step::Restore { step } => {
                    let announced = stamp.saturating_sub(step as u64);
                    let back = freed.remove(&announced).filter(|(at, _)| !model.contains_key(at));
                    model.extend(back);
                    let restored = live.restored(announced);
                    prop_assert_eq!(restored, back.map(|(at, born)| (block(at, born), Tick(0))));
                }
            }
            prop_assert_eq!(live.len(), model.len());
        }
        prop_assert_eq!(live.oddities().missed_frees, missed);
        prop_assert_eq!(live.oddities().frees_of_unknown, unknown);
        for (at, born) in model {
            prop_assert_eq!(live.freed(Some(u64::MAX), Tick(0), RemoteAddr::new(at), None), Some(block(at, born)));
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Map { page: u64, length: u64, stack: u32 },
    Unmap { page: u64, length: u64 },
    Restore { change: usize },
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = prop_oneof![
        3 => (0..40u64, 0..40_000u64, 1..4u32)
            .prop_map(|(page, length, stack)| Change::Map { page, length, stack }),
        2 => (0..40u64, 0..80_000u64).prop_map(|(page, length)| Change::Unmap { page, length }),
        1 => (0..5usize).prop_map(|change| Change::Restore { change }),
    ];
    prop::collection::vec(change, 0..60)
}

/// The bytes each stack holds.
fn owned(pages: &BTreeMap<u64, u32>) -> BTreeMap<u32, u64> {
    pages.values().fold(BTreeMap::new(), |mut sums, stack| {
        *sums.entry(*stack).or_default() += 4096;
        sums
    })
}

proptest! {
    #[test]
    fn the_mappings_are_a_map_from_pages_to_owners(changes in changes()) {
        let mut mappings = Mappings::new(usize::MAX);
        let mut model: BTreeMap<u64, u32> = BTreeMap::new();
        let mut taken: BTreeMap<u64, Vec<(u64, Option<u32>)>> = BTreeMap::new();
        let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
        let mut older = 0;
        for (stamp, change) in (0u64..).zip(changes) {
            match change {
                Change::Map { page, length, stack } => {
                    let at = RemoteAddr::new(page * 4096);
                    let placed = mappings.mapped(at, length, RowId(stack), Tick::default());
                    for piece in placed.replaced {
                        let owner = piece.row.expect("gaps are no one's").0;
                        *sums.entry(owner).or_default() -= piece.bytes();
                    }
                    *sums.entry(stack).or_default() += placed.bytes;
                    model.extend((page..page + length.div_ceil(4096)).map(|page| (page, stack)));
                }
                Change::Unmap { page, length } => {
                    let at = RemoteAddr::new(page * 4096);
                    for piece in mappings.unmapped(stamp, at, length) {
                        if let Some(owner) = piece.row {
                            *sums.entry(owner.0).or_default() -= piece.bytes();
                        }
                    }
                    let pages = page..page + length.div_ceil(4096);
                    let gone: Vec<_> = pages.map(|page| (page, model.remove(&page))).collect();
                    older += gone.iter().filter(|(_, owner)| owner.is_none()).count() as u64 * 4096;
                    taken.insert(stamp, gone);
                }
                Change::Restore { change } => {
                    let announced = stamp.saturating_sub(change as u64);
                    for piece in mappings.restored(announced) {
                        let owner = piece.row.expect("only ours come back").0;
                        *sums.entry(owner).or_default() += piece.bytes();
                    }
                    for (page, owner) in taken.remove(&announced).unwrap_or_default() {
                        match owner {
                            Some(owner) => _ = model.entry(page).or_insert(owner),
                            None => older -= 4096,
                        }
                    }
                }
            }
            sums.retain(|_, bytes| *bytes > 0);
            prop_assert_eq!(&sums, &owned(&model));
            prop_assert_eq!(mappings.older_bytes_unmapped(), older);
        }
    }
}

proptest! {
    #[test]
    fn an_unmapping_that_failed_leaves_all_as_it_was(changes in changes(), at in 0..40u64, length in 0..80_000u64) {
        let mut mappings = Mappings::new(usize::MAX);
        for (stamp, change) in (0u64..).zip(changes) {
            let (page, length) = match change {
                Change::Map { page, length, stack } => {
                    let birth = Tick::of(stamp);
                    mappings.mapped(RemoteAddr::new(page * 4096), length, RowId(stack), birth);
                    (at, length)
                }
                Change::Unmap { page, length } => {
                    mappings.unmapped(2 * stamp, RemoteAddr::new(page * 4096), length);
                    (at, length)
                }
                Change::Restore { change } => (at + change as u64, length),
            };
            let before: Vec<_> = mappings.all().collect();
            let older = mappings.older_bytes_unmapped();
            let failed = 2 * stamp + 1;
            let gone = mappings.unmapped(failed, RemoteAddr::new(page * 4096), length).to_vec();
            let back = mappings.restored(failed).to_vec();
            let ours = gone.into_iter().filter(|piece| piece.row.is_some());
            prop_assert_eq!(ours.collect::<Vec<_>>(), back);
            prop_assert_eq!(mappings.all().collect::<Vec<_>>(), before);
            prop_assert_eq!(mappings.older_bytes_unmapped(), older);
        }
    }
}
