//! The cache of one thread (`tcache_perthread_struct`): counts, then the first block of each list.

use crate::Moment;

use super::chunks::{Chunks, Mark, Place};

/// A list of a cache is never longer.
const LONGEST: usize = 70_000;
/// Lists for small sizes; behind them, in late releases, are some for large ones.
const SMALL: usize = 64;
/// A block of a list for large sizes is not smaller than the largest small one.
const LARGE: u64 = 0x20 + 0x10 * 64;

/// How the counts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// A byte each: blocks in the list.
    Bytes,
    /// Two bytes each: blocks in the list.
    Words,
    /// Two bytes each: room that is left in the list.
    Slots,
}

/// Of the size of the chunk that a cache is, which form it has. A chunk can be larger by what is too small
/// to be one.
pub fn form(size: u64) -> Option<(usize, Counts)> {
    match size {
        0x250 | 0x260 => Some((64, Counts::Bytes)),
        0x290 | 0x2a0 => Some((64, Counts::Words)),
        0x300 | 0x310 | 0x320 => Some((76, Counts::Slots)),
        _ => None,
    }
}

/// A cache.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// Its blocks.
    pub blocks: Vec<Place>,
    /// The second word of each of them is this.
    pub key: Option<u64>,
    /// Lists whose counts are not what was found in them.
    pub uneven: usize,
}

/// The cache at `at`, a block whose chunk has this size, if it is one; `room` is what a list takes.
/// Links are mangled by their place in releases since 2.32.
pub fn read(
    moment: &Moment<'_>,
    chunks: &Chunks,
    at: u64,
    size: u64,
    is_mangled: bool,
    room: Option<u64>,
) -> Option<Cache> {
    let (bins, counts) = form(size)?;
    let bytes = moment.bytes(at, usize::try_from(size - 8).ok()?)?;
    let width = if counts == Counts::Bytes { 1 } else { 2 };
    let mut cache = Cache::default();
    for bin in 0..bins {
        let count = match bytes.get(bin * width..bin * width + width)? {
            [one] => u64::from(*one),
            [low, high] => u64::from(u16::from_le_bytes([*low, *high])),
            _ => return None,
        };
        let entry = bytes.get(bins * width + 8 * bin..)?.first_chunk()?;
        let first = u64::from_le_bytes(*entry);
        let length = follow(moment, chunks, &mut cache, bin, first, is_mangled)? as u64;
        let told = match counts {
            Counts::Bytes | Counts::Words => Some(count),
            Counts::Slots => room.map(|room| room.saturating_sub(count)),
        };
        if let Some(told) = told.filter(|&told| told != length) {
            // A thread may be in the middle of a change.
            if told.abs_diff(length) > 1 {
                return None;
            }
            cache.uneven += 1;
        }
    }
    Some(cache)
}

/// Adds the blocks of a list; how many there are.
fn follow(
    moment: &Moment<'_>,
    chunks: &Chunks,
    cache: &mut Cache,
    bin: usize,
    first: u64,
    is_mangled: bool,
) -> Option<usize> {
    let (mut at, mut count) = (first, 0);
    while at != 0 {
        let (place, chunk) = chunks.find(at.checked_sub(super::HEAD)?)?;
        let fits = match bin < SMALL {
            true => chunk.size == 0x20 + 0x10 * (bin as u64),
            false => chunk.size >= LARGE,
        };
        if !fits || chunk.mark != Mark::Used || count >= LONGEST {
            return None;
        }
        cache.blocks.push(place);
        count += 1;
        let (link, key) = (moment.word(at)?, moment.word(at + 8)?);
        if cache.key.is_some_and(|own| own != key) {
            return None;
        }
        cache.key = Some(key);
        at = if is_mangled { link ^ (at >> 12) } else { link };
    }
    Some(count)
}
