//! The books of a heap: they lie in its first chunk, which leads to them.
//!
//! Releases and builds differ in what follows the lists of free blocks. So the word that leads back to the
//! chunk is searched for; what lies beside it is the same in all: the list of huge blocks before it, chunks that
//! are kept for later and the counts behind it.

use std::collections::HashSet;

use crate::{Moment, walkers::is_private};

use super::{
    bins::BINS,
    chunk::{CHUNK, PAGE, map_offset},
};

/// The books begin behind the head of the chunk.
const FIRST: u64 = 64;
/// So many words of them are looked at.
const WORDS: u64 = 160;
/// Words of the bytes in use.
const USED: usize = 2;
/// Where lists of free blocks can begin: since 8.4 a key comes before them.
const LISTS: [usize; 2] = [4, 5];
/// A list of huge blocks is not followed further.
const MOST: usize = 1 << 20;

/// A heap.
#[derive(Debug)]
pub(super) struct Heap {
    /// Its books.
    pub at: u64,
    /// Its first chunk.
    pub main: u64,
    /// Where the map of a chunk is.
    pub map: usize,
    /// Bytes in use, as PHP counts them itself: `memory_get_usage()`.
    pub used: u64,
    /// Bytes that it has from the system: `memory_get_usage(true)`.
    pub real: u64,
    /// Chunks in use.
    pub chunks: u64,
    /// Empty chunks that it keeps.
    pub cached: Vec<u64>,
    /// How many it says that it keeps.
    pub cached_told: u64,
    /// The first free block of each size class.
    pub free: Vec<u64>,
    /// Blocks with mappings of their own: address and bytes.
    pub huge: Vec<(u64, u64)>,
    /// A list led to what cannot be.
    pub is_broken: bool,
}

impl Heap {
    /// All of them: a program has one, or one for each thread.
    pub fn find(moment: &Moment<'_>) -> Vec<Self> {
        let regions = moment.regions().iter().filter(|region| region.is_private_memory());
        let chunks = regions.flat_map(|region| {
            let step = usize::try_from(CHUNK).unwrap_or(usize::MAX);
            (region.range.start.next_multiple_of(CHUNK)..region.range.end).step_by(step)
        });
        chunks.filter_map(|chunk| Self::of_chunk(moment, chunk)).collect()
    }

    fn of_chunk(moment: &Moment<'_>, main: u64) -> Option<Self> {
        let at = moment.word(main)?;
        let offset = at.checked_sub(main).filter(|offset| (FIRST..PAGE / 2).contains(offset))?;
        if !at.is_multiple_of(8) || !is_private(moment, &(main..main.checked_add(CHUNK)?)) {
            return None;
        }
        let count = usize::try_from(WORDS.min((PAGE - offset) / 8)).ok()?;
        let words = moment.words(at, count)?;
        let lists_end = LISTS[0] + BINS.len();
        let own = (lists_end..words.len().checked_sub(4)?).find(|&own| words[own] == main)?;
        let books = moment.bytes(main, usize::try_from(PAGE).ok()?)?;
        let map = map_offset(&books, usize::try_from(offset).ok()? + (own + 4) * 8)?;
        let half = |word: u64| word & u64::from(u32::MAX);
        let (huge, huge_fits) = huge(moment, words[own - 1]);
        let (cached, cached_fits) = cached(moment, words[own + 1]);
        let (chunks, cached_told) = (half(words[own + 2]), half(words[own + 3]));
        let expected = system(chunks, cached_told, &huge);
        let real = |lists: &usize| words.get(lists + BINS.len()).copied();
        let lists = LISTS.into_iter().find(|lists| real(lists) == Some(expected));
        let lists = lists.unwrap_or(LISTS[0]);
        Some(Self {
            at,
            main,
            map,
            used: words[USED],
            real: real(&lists)?,
            chunks,
            cached,
            cached_told,
            free: words[lists..lists + BINS.len()].to_vec(),
            huge,
            is_broken: !huge_fits || !cached_fits,
        })
    }

    /// What it must have from the system.
    pub fn system(&self) -> u64 {
        system(self.chunks, self.cached_told, &self.huge)
    }

    /// Its chunks in use, ascending, and whether they lead back to the first.
    pub fn chunks(&self, moment: &Moment<'_>) -> (Vec<u64>, bool) {
        let (mut chunks, mut at) = (HashSet::from([self.main]), self.main);
        let is_whole = loop {
            let next = moment.word(at.saturating_add(8)).unwrap_or(0);
            if next == self.main {
                break true;
            }
            let is_chunk = is_chunk(moment, next) && moment.word(next) == Some(self.at);
            if !is_chunk || !chunks.insert(next) {
                break false;
            }
            at = next;
        };
        let mut chunks: Vec<u64> = chunks.into_iter().collect();
        chunks.sort_unstable();
        (chunks, is_whole)
    }
}

fn system(chunks: u64, cached: u64, huge: &[(u64, u64)]) -> u64 {
    let huge = huge.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
    (chunks + cached).saturating_mul(CHUNK).saturating_add(huge)
}

fn is_chunk(moment: &Moment<'_>, at: u64) -> bool {
    let end = at.checked_add(CHUNK).filter(|_| at != 0 && at.is_multiple_of(CHUNK));
    end.is_some_and(|end| is_private(moment, &(at..end)))
}

/// Huge blocks, ascending, and whether all of their list can be.
fn huge(moment: &Moment<'_>, mut at: u64) -> (Vec<(u64, u64)>, bool) {
    let (mut seen, mut huge) = (HashSet::new(), Vec::new());
    while at != 0 {
        let words = moment.words(at, 3).filter(|_| seen.len() < MOST && seen.insert(at));
        let Some([block, bytes, next]) = words.as_deref() else { return (sorted(huge), false) };
        let end = block.checked_add(*bytes).filter(|_| block.is_multiple_of(CHUNK) && *bytes > 0);
        if !end.is_some_and(|end| is_private(moment, &(*block..end))) {
            return (sorted(huge), false);
        }
        huge.push((*block, *bytes));
        at = *next;
    }
    (sorted(huge), true)
}

fn sorted(mut huge: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    huge.sort_unstable();
    huge
}

/// Chunks that are kept, and whether all of their list can be.
fn cached(moment: &Moment<'_>, mut at: u64) -> (Vec<u64>, bool) {
    let (mut seen, mut cached) = (HashSet::new(), Vec::new());
    while at != 0 {
        if !is_chunk(moment, at) || !seen.insert(at) {
            return (cached, false);
        }
        cached.push(at);
        at = moment.word(at + 8).unwrap_or(0);
    }
    (cached, true)
}
