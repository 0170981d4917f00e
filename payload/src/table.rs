//! Which blocks are samples, and with which stamp. No lock, no search beyond two short rows, and
//! nothing to clean up: an entry is taken and given back by one exchange.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heapattach_abi::{
    region,
    samples::{self, ENTRY_BYTES, WAYS},
};

use crate::{cells::Cells, shared_word::Place};

/// Remembers a block; `false` if there is no room. Before the target learns its address.
pub(crate) fn insert(cells: &Cells, address: u64, stamp: u64) -> bool {
    let free = |entry: &Place| {
        entry.get() == 0
            && entry.word().compare_exchange(0, samples::CLAIMED, AcqRel, Relaxed).is_ok()
    };
    let Some(entry) = entries(cells, address).find(free) else { return false };
    entry.at(8).set(stamp);
    count_in_filter(cells, address);
    entry.word().store(address, Release);
    true
}

/// Forgets a block; answers its stamp if it was a sample. Of two threads that free the same block,
/// which only a broken program does, one gets it.
pub(crate) fn remove(cells: &Cells, address: u64) -> Option<u64> {
    let entry = entries(cells, address).find(|entry| entry.word().load(Acquire) == address)?;
    let stamp = entry.at(8).get();
    entry.word().compare_exchange(address, 0, AcqRel, Relaxed).ok()?;
    discount_in_filter(cells, address);
    Some(stamp)
}

fn entries(cells: &Cells, address: u64) -> impl Iterator<Item = Place> {
    let table = cells.region().at(region::SAMPLES_AT);
    let [first, second] = samples::buckets(address);
    let place = move |bucket: usize, way: usize| table.at((bucket * WAYS + way) * ENTRY_BYTES);
    (0..WAYS).map(move |way| place(first, way)).chain((0..WAYS).map(move |way| place(second, way)))
}

fn count_in_filter(cells: &Cells, address: u64) {
    let byte = cells.filter().at(samples::filter_index(address)).byte();
    // A counter that is full stays full, since it is not known any more how often it was counted up.
    let _ = byte.fetch_update(Relaxed, Relaxed, |n| n.checked_add(1));
}

fn discount_in_filter(cells: &Cells, address: u64) {
    let byte = cells.filter().at(samples::filter_index(address)).byte();
    let _ = byte.fetch_update(Relaxed, Relaxed, |n| (n != u8::MAX).then(|| n.saturating_sub(1)));
}
