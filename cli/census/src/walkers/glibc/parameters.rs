//! The parameters of malloc (`mp_`), found by their shape among the variables of its module.

use crate::{Moment, RegionKind};

use super::arena::Found;

/// How far before the start of the break the count of mapped chunks lies: from 2.35 on, and before.
const COUNTS: [u64; 2] = [0x24, 0x20];
/// Bins of a thread's cache, at most.
const MOST_BINS: u64 = 128;
/// What `M_MMAP_MAX` is unless it was changed.
const MAPPED_MAX: u32 = 65_536;

/// 2.43 counts 16 bytes too many each time that some aligned blocks are freed: the sum is off by so much at
/// most.
pub const DRIFT: u64 = 1 << 20;

/// What is of use of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How many chunks have a mapping of their own.
    pub mapped: u64,
    /// Their bytes.
    pub mapped_bytes: u64,
    /// Where the program's break was when malloc began; 0 as long as it was not asked for.
    pub break_start: u64,
    /// How many blocks a list of a thread's cache takes.
    pub cache_count: u64,
}

impl Parameters {
    /// In the variables of the module that has the main arena.
    pub fn find(moment: &Moment<'_>, found: &Found) -> Option<Self> {
        let words = &found.words;
        let all = 8..words.len().saturating_sub(4);
        all.into_iter().find_map(|index| Some(Self::at(moment, words, index)?.0))
    }

    /// Which of the words there is where the break was, and how far before it the count of mapped chunks lies.
    pub fn place(moment: &Moment<'_>, found: &Found) -> Option<(usize, u64)> {
        let words = &found.words;
        let all = 8..words.len().saturating_sub(4);
        all.into_iter().find_map(|index| Some((index, Self::at(moment, words, index)?.1)))
    }

    /// If the word there is where the break was.
    fn at(moment: &Moment<'_>, words: &[u64], index: usize) -> Option<(Self, u64)> {
        let [mapped_bytes, most, break_start, bins, largest, cache_count] =
            *words.get(index - 2..index + 4)?.first_chunk()?;
        let is_sound = mapped_bytes.is_multiple_of(16)
            && most.is_multiple_of(16)
            && mapped_bytes <= most
            && (1..=MOST_BINS).contains(&bins)
            && (24..=1 << 24).contains(&largest)
            && cache_count <= 65_535
            && is_break(moment, break_start);
        if !is_sound {
            return None;
        }
        let half = |at: u64| {
            let word = words[usize::try_from(at / 8).ok()?];
            let shift = if at.is_multiple_of(8) { 0 } else { 32 };
            u32::try_from((word >> shift) & 0xffff_ffff).ok()
        };
        COUNTS.into_iter().find_map(|before| {
            let at = (index as u64) * 8 - before;
            let (count, limit, peak) = (half(at)?, half(at + 4)?, half(at + 8)?);
            let is_sound = count <= peak
                && peak <= limit
                && (limit == MAPPED_MAX || bins == 64 && limit < 1 << 20)
                && (mapped_bytes > 0 || count == 0)
                && (count > 0 || mapped_bytes <= DRIFT);
            let mapped = u64::from(count);
            is_sound.then_some((Self { mapped, mapped_bytes, break_start, cache_count }, before))
        })
    }
}

/// Whether the program's break can have been there, or a mapping in its place.
fn is_break(moment: &Moment<'_>, at: u64) -> bool {
    let region = || moment.region(at);
    at == 0
        || region().is_some_and(|region| region.kind == RegionKind::Break)
        || region().is_some_and(|region| region.is_private_memory())
}
