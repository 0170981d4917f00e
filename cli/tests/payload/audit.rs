//! What must hold whenever no thread is inside a hook.

use std::collections::BTreeMap;

use heapattach_abi::{index::CLAIMED, region, ring::Kind, row, samples};

use crate::placed::{Placed, Record};

/// Checks everything the payload keeps against the records, all of which are still in the rings
/// and none of which was dropped. Returns them.
pub fn audit(placed: &Placed) -> Vec<Record> {
    let records = placed.records();
    assert_eq!(placed.total(row::BUSY), 0, "somebody is busy");
    assert!(placed.entries().all(|(key, _)| key != CLAIMED), "an entry of the index stays claimed");
    assert_eq!(placed.total(row::DROPPED_BLOCKS) + placed.total(row::DROPPED_FREES), 0);
    let stamps: Vec<_> = records.iter().map(|record| record.stamp).collect();
    let dense: Vec<_> = (0..placed.word(region::STAMP)).collect();
    assert_eq!(stamps, dense, "stamps");
    let live = live_samples(&records);
    for record in &records {
        let address = record.address;
        let own = live.iter().filter(|(_, block)| **block == address).map(|(stamp, _)| *stamp);
        let mut known = placed.stamps_of(address);
        known.sort_unstable();
        if region::split_interval(placed.word(region::INTERVAL)).0 > 1 {
            assert_eq!(known, own.collect::<Vec<_>>(), "what the table knows of {address:#x}");
            let index = samples::filter_index(address);
            let same = live.values().filter(|block| samples::filter_index(**block) == index);
            assert_eq!(usize::from(placed.filter(address)), same.count(), "filter of {address:#x}");
        }
    }
    records
}

/// The stamps and addresses of the samples that are still there, by the records alone; each is
/// freed at most once.
pub fn live_samples(records: &[Record]) -> BTreeMap<u64, u64> {
    let (mut live, mut announced) = (BTreeMap::new(), BTreeMap::new());
    for record in records {
        match record.kind {
            Kind::Allocated | Kind::Reallocated => {
                live.insert(record.stamp, record.address);
            }
            Kind::FreedSample => {
                assert_eq!(live.remove(&record.size), Some(record.address), "{record:?}");
                announced.insert(record.stamp, (record.size, record.address));
            }
            Kind::Restored => {
                if let Some((stamp, address)) = announced.remove(&record.size) {
                    assert_eq!(address, record.address, "{record:?}");
                    live.insert(stamp, address);
                }
            }
            Kind::Freed | Kind::Mapped | Kind::Unmapped | Kind::Nothing | Kind::Remapped => (),
            Kind::Broke | Kind::Discarded => (),
        }
    }
    live
}
