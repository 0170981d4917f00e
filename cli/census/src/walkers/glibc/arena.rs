//! Where the allocator keeps its books: the bins of the main arena among the variables of a module, and
//! the ring of all arenas from there.

use std::ops::Range;

use crate::{Image, Moment};

use super::{FLAGS, HEAD};

/// Bins of an arena, each a pair of words. The last one is never used.
const BINS: usize = 127;
/// So many of the others are as they should be at any time: a thread may be in the middle of a change.
const SOUND_BINS: usize = 120;
/// Where a chunk's links lie.
const NEXT: u64 = 16;
const PREVIOUS: u64 = 24;

/// How far an arena begins before its bins: 2.27 to 2.42, from 2.43 on, before 2.27.
const BEFORE: [u64; 3] = [0x70, 0x18, 0x68];
/// Where fields lie, from the bins on: the top (before them), the next arena, the bytes from the system.
const TOP: u64 = 0x10;
const NEXT_ARENA: u64 = 0x800;
const SYSTEM: u64 = 0x818;
const END: u64 = 0x828;
/// Fast bins, where there are any: ten of them, before the top and the last remainder.
const FAST_BINS: u64 = 0x60;
const FAST_BIN_COUNT: usize = 10;
/// Where it is said whether they may have any, from the start on; as the lock, it is half a word.
const HAS_FAST: u64 = 8;
const LOW: u64 = 0xffff_ffff;

/// No program has more arenas.
const MOST_ARENAS: usize = 4096;
/// Words that are read to compare chunks with bins, in one module: its variables can be full of what looks
/// like bins.
const MOST_READ: usize = 1 << 16;
/// Bytes of variables that are looked through, of one module and of all.
const MODULE_LIMIT: u64 = 64 << 20;
const ALL_LIMIT: u64 = 512 << 20;

/// The main arena, as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The module's path.
    pub path: String,
    /// The module.
    pub image: Image,
    /// The words of its variables.
    pub words: Vec<u64>,
    /// Where these begin.
    pub start: u64,
    /// Where the bins begin.
    pub bins: u64,
    /// How far before them the arena begins.
    pub before: u64,
}

/// The books of one arena.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Its memory.
    pub range: Range<u64>,
    /// Where its bins begin.
    pub bins: u64,
    /// The first and the last of each bin.
    pub links: Vec<u64>,
    /// The chunk that was not cut yet, and its size; none at first.
    pub top: Option<Range<u64>>,
    /// What it has from the system.
    pub system: u64,
    /// First chunks of the fast bins.
    pub fast: Vec<u64>,
    /// Where these are.
    pub fast_at: u64,
    /// It says whether they may have any, if it says so by a word of its own.
    pub has_fast: Option<bool>,
    /// A thread has locked it.
    pub is_locked: bool,
}

/// The main arenas of all modules; the one to be looked at is the last. Usually there is one.
pub fn find(moment: &Moment<'_>) -> Vec<Found> {
    find_in_some(moment, |_| true)
}

/// The same of the modules whose numbers may have one.
pub fn find_in_some(moment: &Moment<'_>, is_open: impl Fn(usize) -> bool) -> Vec<Found> {
    // A program can have far more variables than its C library; it has the arena itself only if it is static.
    let images = moment.images().iter().enumerate();
    let open = images.filter(|(image, _)| is_open(*image)).map(|(_, image)| image);
    let (libraries, others): (Vec<_>, Vec<_>) = open.partition(|image| is_c_library(&image.path));
    let found = find_among(moment, &libraries);
    if found.is_empty() { find_among(moment, &others) } else { found }
}

/// `libc.so.6`, before glibc 2.34 also `libc-2.31.so`.
fn is_c_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with("libc.so.") || name.starts_with("libc-2.")
}

fn find_among(moment: &Moment<'_>, images: &[&Image]) -> Vec<Found> {
    let mut all = Vec::new();
    let mut budget = ALL_LIMIT;
    for image in images {
        for data in &image.data {
            let length = (data.end - data.start).min(MODULE_LIMIT).min(budget);
            budget -= length;
            all.extend(find_in(moment, image, data.start..data.start + length));
        }
    }
    // One that was never used has nothing from the system.
    let system = |found: &Found| moment.word(found.bins.saturating_add(SYSTEM)).unwrap_or(0);
    let used: Vec<Found> = all.iter().filter(|found| system(found) > 0).cloned().collect();
    if !used.is_empty() {
        all = used;
    }
    all.sort_by_key(system);
    all
}

/// The same in the variables of one module.
fn find_in(moment: &Moment<'_>, image: &Image, range: Range<u64>) -> Option<Found> {
    let count = usize::try_from((range.end - range.start) / 8).ok()?;
    let words = moment.words(range.start, count)?;
    let bins = find_bins(moment, range.start, &words)?;
    let before = |before: &u64| ring(moment, bins, *before).is_some();
    let before = BEFORE.into_iter().find(before).unwrap_or(BEFORE[0]);
    let (path, image) = (image.path.clone(), image.clone());
    Some(Found { path, image, start: range.start, words, bins, before })
}

/// The best that looks like bins, and of equals the last: each pair leads to itself, or to chunks that lead
/// back.
fn find_bins(moment: &Moment<'_>, start: u64, words: &[u64]) -> Option<u64> {
    let address = |index: usize| start + (index as u64) * 8;
    let is_empty = |index: usize| {
        let own = address(index).wrapping_sub(HEAD);
        words[index] == own && words[index + 1] == own
    };
    let mut budget = MOST_READ;
    let mut leads_back = |index: usize| {
        let (next, previous) = (words[index], words[index + 1]);
        if !is_chunk(next) || !is_chunk(previous) || budget < 2 {
            return false;
        }
        budget -= 2;
        let own = Some(address(index).wrapping_sub(HEAD));
        moment.word(next.wrapping_add(PREVIOUS)) == own
            && moment.word(previous.wrapping_add(NEXT)) == own
    };
    let mut best: Option<(usize, usize)> = None;
    let last_bin = 2 * (BINS - 1);
    for last in (last_bin..words.len().saturating_sub(1)).filter(|&index| is_empty(index)) {
        let (mut sound, mut wrong) = (0, 0);
        for bin in (last - last_bin..last).step_by(2) {
            match is_empty(bin) || leads_back(bin) {
                true => sound += 1,
                false => wrong += 1,
            }
            if wrong > BINS - 1 - SOUND_BINS {
                break;
            }
        }
        let is_sound = wrong <= BINS - 1 - SOUND_BINS;
        if is_sound && best.is_none_or(|(most, _)| sound >= most) {
            best = Some((sound, last - last_bin));
        }
    }
    best.map(|(_, first)| address(first))
}

fn is_chunk(at: u64) -> bool {
    at != 0 && at.is_multiple_of(HEAD) && at < 1 << 56
}

/// Where all arenas begin, the main one first, if their ring closes.
fn ring(moment: &Moment<'_>, bins: u64, before: u64) -> Option<Vec<u64>> {
    let first = bins.checked_sub(before)?;
    let mut arenas = vec![first];
    loop {
        let next = moment.word(arenas.last()?.checked_add(before + NEXT_ARENA)?)?;
        if next == first {
            return Some(arenas);
        }
        if arenas.len() >= MOST_ARENAS || next == 0 || !next.is_multiple_of(8) {
            return None;
        }
        arenas.push(next);
    }
}

impl Found {
    /// The books of all arenas, the main one first.
    pub fn ring(&self, moment: &Moment<'_>) -> Result<Vec<Books>, String> {
        let starts = ring(moment, self.bins, self.before)
            .ok_or_else(|| "the ring of arenas does not close: corrupted?".to_owned())?;
        let books = |&start: &u64| {
            Books::read(moment, start, self.before)
                .ok_or_else(|| format!("the arena at {start:#x} cannot be read: corrupted?"))
        };
        starts.iter().map(books).collect()
    }

    /// What the release is known by: how far an arena begins before its bins, and whether links of short
    /// lists are mangled.
    pub fn layout(&self, is_mangled: bool) -> String {
        let releases = match (self.before, is_mangled) {
            (0x68, _) => "before 2.27",
            (0x18, _) => "2.43 or later",
            (_, true) => "2.32 to 2.42",
            (_, false) => "2.27 to 2.31",
        };
        format!("malloc of glibc {releases}")
    }
}

impl Books {
    fn read(moment: &Moment<'_>, start: u64, before: u64) -> Option<Self> {
        let bins = start.checked_add(before)?;
        let end = bins.checked_add(END)?;
        let links = moment.words(bins, 2 * BINS)?;
        let top = moment.word(bins.checked_sub(TOP)?)?;
        let fast = match before > FAST_BINS {
            true => moment.words(bins - FAST_BINS, FAST_BIN_COUNT)?,
            false => Vec::new(),
        };
        // From 2.27 on, before the fast bins.
        let says_so = before == BEFORE[0];
        let has_fast =
            says_so.then(|| moment.word(start + HAS_FAST)).flatten().map(|word| word & LOW != 0);
        // At first the top is the first bin itself.
        let size = || moment.word(top.checked_add(8)?).map(|size| size & !FLAGS);
        let top_end = || top.checked_add(size()?);
        let top = (top != bins - HEAD).then(|| top_end().map(|end| top..end)).flatten();
        Some(Self {
            range: start..end,
            bins,
            links,
            top,
            system: moment.word(bins.checked_add(SYSTEM)?)?,
            fast,
            fast_at: bins - FAST_BINS.min(before),
            has_fast,
            is_locked: moment.word(start)? & LOW != 0,
        })
    }

    /// The address that the list of a bin begins and ends with.
    pub fn bin(&self, bin: usize) -> u64 {
        self.bins + (bin as u64) * 16 - HEAD
    }

    /// The first chunk in the list of unsorted ones: what a chunk that is being cut leaves.
    pub fn rest(&self) -> Option<u64> {
        self.links.first().copied().filter(|first| *first != self.bin(0))
    }

    /// How many there are.
    pub fn bins(&self) -> usize {
        self.links.len() / 2
    }
}
