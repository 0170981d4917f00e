//! The map of mimalloc 3 that leads from every slice of memory to its page.
//!
//! Its first word leads to what lies right behind it: that finds it among the variables of a module.

use std::ops::Range;

use crate::{Moment, Window};

use super::{
    layout::{MAPS, MapLayout},
    page::{Page, SLICE},
};

/// A node below has so many words.
const BELOW: u64 = 1 << 13;
/// The bytes of the first level: a word for each 512 MiB.
const SIZES: Range<u64> = 1 << 12..1 << 27;
const PAGE: u64 = 4096;
/// The bits of the thread's word that are flags.
const FLAGS: u64 = 7;
/// Pages of more bytes than this have a word for their first slices alone.
const LARGE: u64 = 4 << 20;
/// So many words that lead nowhere are no map's, and an eighth of those that lead to memory.
const MOST_WRONG: u64 = 16;

/// A map.
#[derive(Debug)]
pub struct Map {
    /// The layout that fits.
    pub layout: &'static MapLayout,
    /// Pages in use, ascending.
    pub pages: Vec<Page>,
    /// Pages whose books cannot be.
    pub broken: u64,
}

impl Map {
    /// All of them, one a module.
    pub fn find(moment: &Moment<'_>) -> Vec<Self> {
        let images = moment.images().iter();
        images.filter_map(|image| Self::of_module(moment, &image.data)).collect()
    }

    fn of_module(moment: &Moment<'_>, data: &[Range<u64>]) -> Option<Self> {
        data.iter().flat_map(|range| moment.present(range)).find_map(|part| {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            part.step_by(8).find_map(|at| {
                let map = window.word(at)?;
                let is_place = map.is_multiple_of(PAGE) && (PAGE..1 << 47).contains(&map);
                let behind = is_place.then(|| moment.word(map))??.checked_sub(map)?;
                let fits = behind.is_power_of_two() && SIZES.contains(&behind);
                fits.then(|| Self::read(moment, map..map + behind))?
            })
        })
    }

    fn read(moment: &Moment<'_>, map: Range<u64>) -> Option<Self> {
        let runs = runs(moment, &map)?;
        let all = MAPS.iter().map(|layout| {
            let mut own = Self { layout, pages: Vec::new(), broken: 0 };
            for (books, slices) in &runs {
                own.add(moment, *books, slices.clone());
            }
            own
        });
        let all =
            all.filter(|own| !own.pages.is_empty() && own.broken <= own.pages.len() as u64 / 8);
        all.max_by_key(|own| own.pages.len())
    }

    fn add(&mut self, moment: &Moment<'_>, books: u64, slices: Range<u64>) {
        let owner = moment.word(books.saturating_add(self.layout.thread)).unwrap_or(0);
        let mut span = slices.start * SLICE..slices.end * SLICE;
        if span.end - span.start >= LARGE - SLICE {
            // The rest of it is in the map no more.
            let bytes = moment.word(books.saturating_add(self.layout.page.block.0)).unwrap_or(0);
            let end = span.start.saturating_add(bytes).saturating_add(SLICE);
            let mapped = moment.region(span.start).map_or(span.end, |region| region.range.end);
            span.end = span.end.max(end.min(mapped));
        }
        // An earlier one's rest can reach no further than here.
        if let Some(last) = self.pages.last_mut()
            && last.span.end > span.start
        {
            last.span.end = span.start;
        }
        let is_mapped = |at| moment.region(at).is_some();
        let page = (is_mapped(span.start) && is_mapped(span.end - 1))
            .then(|| Page::read(moment, books, &self.layout.page, span, owner & !FLAGS));
        match page.flatten() {
            Some(page) => self.pages.push(page),
            None => self.broken += 1,
        }
    }
}

/// The books that slices lead to, with the slices that do; ascending.
fn runs(moment: &Moment<'_>, map: &Range<u64>) -> Option<Vec<(u64, Range<u64>)>> {
    let mut runs: Vec<(u64, Range<u64>)> = Vec::new();
    let private = moment.regions().iter().filter(|region| region.writable);
    let mut left: u64 = private.map(|region| region.bytes() / PAGE).sum();
    let mut wrong = 0;
    for part in moment.present(map) {
        let mut window = Window::new(moment, part.clone(), 1 << 16);
        for at in part.step_by(8) {
            let Some(node) = window.word(at).filter(|node| *node != 0) else { continue };
            let first = (at - map.start) / 8 * BELOW;
            if !node.is_multiple_of(8) || node >= 1 << 47 {
                continue;
            }
            for piece in moment.present(&(node..node + 8 * BELOW)) {
                left = left.checked_sub(piece.end.div_ceil(PAGE) - piece.start / PAGE)?;
                let mut below = Window::new(moment, piece.clone(), 1 << 16);
                for at in piece.step_by(8) {
                    let Some(books) = below.word(at).filter(|books| *books != 0) else { continue };
                    let slice = first + (at - node) / 8;
                    match runs.last_mut() {
                        Some((last, slices)) if *last == books && slices.end == slice => {
                            slices.end += 1;
                        }
                        _ => {
                            wrong += u64::from(moment.region(books).is_none());
                            runs.push((books, slice..slice + 1));
                        }
                    }
                    // Other memory looks like a map by chance: it is not read to its end.
                    if wrong > MOST_WRONG + runs.len() as u64 / 8 {
                        return None;
                    }
                }
            }
        }
    }
    Some(runs)
}
