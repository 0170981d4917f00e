//! A chunk: 2 MiB of memory, whose first page has the books of the 511 others.

use std::ops::Range;

use crate::Moment;

use super::bins::BINS;

/// The bytes of a chunk, and what it is aligned to.
pub(super) const CHUNK: u64 = 2 << 20;
/// The bytes of a page.
pub(super) const PAGE: u64 = 4096;
/// Pages of a chunk.
const PAGES: usize = 512;
/// Bytes of the bitmap of pages in use, which lies before the map.
const BITMAP: usize = PAGES / 8;
/// Where the number of free pages is.
const FREE_PAGES: usize = 24;

/// In the map: the page begins or goes on with blocks of one size; it is a large block or goes on with a run.
const SMALL: u32 = 1 << 31;
const LARGE: u32 = 1 << 30;
const SIZE_CLASS: u32 = 0x1f;
const LENGTH: u32 = 0x3ff;

/// What a part of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A run of small blocks: its size class, and which of them are free.
    Run(usize, Vec<bool>),
    /// A block of whole pages.
    Large,
    /// Pages that are free.
    Unused,
    /// A page whose entry of the map cannot be.
    Broken,
}

/// A chunk that was read.
#[derive(Debug)]
pub(super) struct Chunk {
    /// Where it is.
    pub at: u64,
    /// Its parts, in pages; ascending.
    pub pieces: Vec<(Range<usize>, Piece)>,
    /// Pages in use by its bitmap, and by its count.
    pub used_pages: [u64; 2],
}

/// Where the map of the first chunk of a heap is, whose books end at `from`: its first page is a large block,
/// and its count of free pages agrees with the bitmap.
pub(super) fn map_offset(books: &[u8], from: usize) -> Option<usize> {
    let first = LARGE | 1;
    let last = books.len().checked_sub(PAGES * 4)?;
    (from.next_multiple_of(8).max(BITMAP)..=last).step_by(8).find(|&at| {
        let is_first = entry(books, at, 0) == Some(first) && is_used(books, at, 0);
        is_first && used_pages(books, at).is_some_and(|[found, told]| found == told)
    })
}

fn entry(books: &[u8], map: usize, page: usize) -> Option<u32> {
    let at = map.checked_add(page * 4)?;
    Some(u32::from_le_bytes(*books.get(at..)?.first_chunk()?))
}

fn is_used(books: &[u8], map: usize, page: usize) -> bool {
    let byte = map.checked_sub(BITMAP).and_then(|bits| books.get(bits + page / 8));
    byte.is_some_and(|byte| byte >> (page % 8) & 1 == 1)
}

fn used_pages(books: &[u8], map: usize) -> Option<[u64; 2]> {
    let bits = books.get(map.checked_sub(BITMAP)?..map)?;
    let found = bits.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let free = u32::from_le_bytes(*books.get(FREE_PAGES..)?.first_chunk()?);
    Some([found, (PAGES as u64).checked_sub(u64::from(free))?])
}

impl Chunk {
    /// Reads it; all of its blocks count as used until lists of free ones are followed.
    pub fn read(moment: &Moment<'_>, at: u64, map: usize) -> Option<Self> {
        let books = moment.bytes(at, usize::try_from(PAGE).ok()?)?;
        let used_pages = used_pages(&books, map)?;
        let mut pieces: Vec<(Range<usize>, Piece)> = Vec::new();
        let mut page = 1;
        while page < PAGES {
            let (length, piece) = piece(&books, map, page);
            match (pieces.last_mut(), &piece) {
                (Some((pages, Piece::Unused)), Piece::Unused) => pages.end += 1,
                _ => pieces.push((page..page + length, piece)),
            }
            page += length;
        }
        Some(Self { at, pieces, used_pages })
    }

    /// Where a page is.
    pub fn place(&self, page: usize) -> u64 {
        self.at + page as u64 * PAGE
    }

    /// Marks a block as free: whether it is one of a run of that class, and was not marked before.
    pub fn free(&mut self, block: u64, class: usize) -> bool {
        let own = |offset: u64| {
            let page = usize::try_from(offset / PAGE).ok()?;
            let number = self.pieces.partition_point(|(pages, _)| pages.end <= page);
            let (pages, piece) = self.pieces.get_mut(number)?;
            let Piece::Run(found, free) = piece else { return None };
            let within = offset.checked_sub(pages.start as u64 * PAGE)?;
            let size = BINS.get(class)?.size;
            let is_start = *found == class && within.is_multiple_of(size);
            let slot = free.get_mut(usize::try_from(within / size).ok()?)?;
            Some(is_start && !std::mem::replace(slot, true))
        };
        block.checked_sub(self.at).and_then(own).unwrap_or(false)
    }
}

/// What begins at a page, and its length in pages.
fn piece(books: &[u8], map: usize, page: usize) -> (usize, Piece) {
    if !is_used(books, map, page) {
        return (1, Piece::Unused);
    }
    let entry_of = |page| entry(books, map, page).unwrap_or(0);
    let fits = |length: usize| {
        let end = page + length;
        (1..=PAGES).contains(&length)
            && end <= PAGES
            && (page..end).all(|page| is_used(books, map, page))
    };
    let entry = entry_of(page);
    match (entry & SMALL != 0, entry & LARGE != 0) {
        (false, true) => {
            let length = (entry & LENGTH) as usize;
            if fits(length) { (length, Piece::Large) } else { (1, Piece::Broken) }
        }
        (true, false) => {
            let class = entry & SIZE_CLASS;
            let Some(bin) = BINS.get(class as usize) else { return (1, Piece::Broken) };
            let goes_on = |page| {
                let entry = entry_of(page);
                entry & (SMALL | LARGE) == SMALL | LARGE && entry & SIZE_CLASS == class
            };
            match fits(bin.pages) && (page + 1..page + bin.pages).all(goes_on) {
                true => (bin.pages, Piece::Run(class as usize, vec![false; bin.blocks])),
                false => (1, Piece::Broken),
            }
        }
        _ => (1, Piece::Broken),
    }
}
