//! The arenas' own books: found by what leads back to the map of extents.

use std::collections::BTreeMap;

use crate::{Moment, walkers::page_tree::Tree};

use super::{
    bins::Bins,
    classes::Quantum,
    layout::{self, ALL, Layout},
};

/// Arenas have numbers below.
const MOST_ARENAS: u64 = 4096;
/// A base has at most so many blocks: each is twice the size of the one before, or nearly.
const MOST_BLOCKS: usize = 1024;

/// Every arena, by number.
#[derive(Debug)]
pub struct Arenas {
    /// The release whose layout fits.
    pub layout: &'static Layout,
    /// Where each is.
    pub at: BTreeMap<u32, u64>,
    /// The bins of each, if that table was found.
    pub bins: Option<Bins>,
}

/// What an arena counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Pages in use.
    pub active: u64,
    /// Pages of dirty, muzzy and retained extents.
    pub pages: [u64; 3],
    /// Regions in use of all bins, or in thread caches; `None` if it is not known how many bins there are.
    pub regions: Option<u64>,
    /// Large blocks in use, or in thread caches.
    pub large: u64,
    /// Bytes of blocks that the allocator has itself: stacks of thread caches, its profiler's tables.
    pub internal: u64,
    /// Requests that were ever counted: none if statistics were left out of the build.
    pub requests: u64,
    /// What its base has from the system, as it counts it itself.
    pub base_mapped: u64,
    /// The same, block by block.
    pub base: Vec<(u64, u64)>,
    /// Threads of the program that use it.
    pub threads: u64,
    /// Locks that are taken.
    pub taken: u64,
}

impl Arenas {
    /// The table of arenas in the module that has the root.
    pub fn find(moment: &Moment<'_>, root: &Tree, quantum: Quantum) -> Option<Self> {
        let image = moment.images().get(root.image)?;
        let emap = root.at - layout::EMAP_ROOT;
        // Words in that module that lead to an arena: by layout, by where the table would begin.
        let mut tables: BTreeMap<(usize, u64), BTreeMap<u32, u64>> = BTreeMap::new();
        for range in &image.data {
            for part in moment.present(range) {
                let mut window = crate::Window::new(moment, part.clone(), 1 << 16);
                for at in part.step_by(8) {
                    let Some(word) = window.word(at) else { break };
                    let Some((layout, index)) = arena(moment, word, emap) else { continue };
                    let Some(table) = at.checked_sub(8 * u64::from(index)) else { continue };
                    tables.entry((layout, table)).or_default().insert(index, word);
                }
            }
        }
        let most = tables.into_iter().max_by_key(|(_, arenas)| arenas.len());
        let bins = Bins::find(moment, &image.data, quantum);
        most.map(|((layout, _), at)| Self { layout: &ALL[layout], at, bins })
    }

    /// The books of one.
    pub fn books(&self, moment: &Moment<'_>, index: u32, quantum: Quantum) -> Option<Books> {
        let (at, layout) = (*self.at.get(&index)?, self.layout);
        let word = |offset: u64| moment.word(at.checked_add(offset)?);
        let threads = word(0)? & 0xffff_ffff;
        let mut books = Books { active: word(layout.active)?, threads, ..Books::default() };
        for (kind, pages) in (0..).zip(&mut books.pages) {
            let cache = layout.dirty + kind * layout::EXTENT_CACHE;
            let [plain, guarded] = layout::EXTENT_CACHE_PAGES;
            *pages = word(cache + plain)?.saturating_add(word(cache + guarded)?);
            books.taken += lock(moment, at + cache + layout.locked);
        }
        let mut regions = 0_u64;
        let bins = self.bins.as_ref().map(Bins::count);
        for bin in 0..bins.unwrap_or_else(|| u64::from(quantum.small())) {
            let bin = layout.bins + bin * layout::BIN;
            let statistics = bin + layout::BIN_STATS;
            books.requests = books.requests.saturating_add(word(statistics)?);
            regions = regions.saturating_add(word(statistics + 24)?);
            books.taken += lock(moment, at + bin + layout::BIN_LOCK + layout.locked);
        }
        books.regions = bins.map(|_| regions);
        for class in 0..u64::from(layout::LARGE_CLASSES) {
            let class = layout.large.0 + class * layout.large.1;
            let (more, less) = (word(class)?, word(class + 8)?);
            books.requests = books.requests.saturating_add(more);
            books.large = books.large.wrapping_add(more).wrapping_sub(less);
        }
        for own in [layout.large_lock, layout.caches_lock] {
            books.taken += lock(moment, at + own + layout.locked);
        }
        books.internal = word(layout.internal)?;
        let base = word(layout.base)?;
        let shift = Layout::base_shift(quantum);
        books.base_mapped = moment.word(base.checked_add(layout.base_mapped + shift)?)?;
        books.base = base_blocks(moment, base)?;
        Some(books)
    }
}

/// Which layout an arena at that address has, and its number.
fn arena(moment: &Moment<'_>, at: u64, emap: u64) -> Option<(usize, u32)> {
    let is_aligned = (4096..1 << 47).contains(&at) && at.is_multiple_of(64);
    if !is_aligned || !moment.region(at)?.is_private_memory() {
        return None;
    }
    let layout = ALL.iter().position(|layout| moment.word(at + layout.emap) == Some(emap))?;
    let index = moment.word(at + ALL[layout].index)? & 0xffff_ffff;
    let index = u32::try_from(index).ok().filter(|index| u64::from(*index) < MOST_ARENAS)?;
    Some((layout, index))
}

/// 1 if a lock is taken, else 0.
fn lock(moment: &Moment<'_>, at: u64) -> u64 {
    moment.word(at).map_or(0, |word| u64::from(word & 0xff == 1))
}

/// Where a base's blocks are, and their bytes.
fn base_blocks(moment: &Moment<'_>, base: u64) -> Option<Vec<(u64, u64)>> {
    let mut blocks = Vec::new();
    let mut at = moment.word(base.checked_add(layout::BASE_BLOCKS)?)?;
    while at != 0 && blocks.len() < MOST_BLOCKS {
        let (size, next) = (moment.word(at)?, moment.word(at.checked_add(8)?)?);
        let is_sound = size > 0 && at.checked_add(size).is_some_and(|end| end < 1 << 48);
        if !is_sound || !at.is_multiple_of(4096) {
            return None;
        }
        blocks.push((at, size));
        at = next;
    }
    (at == 0).then_some(blocks)
}
