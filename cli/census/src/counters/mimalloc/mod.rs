//! mimalloc 2 and 3: its options, what `mi_stats_print` prints of the whole process, and what its pages have.
//!
//! Release builds count little; how many blocks a page has in use is in the books of each page all the same, so
//! these are summed. The books of pages are read while their threads go on: a page that is made or given up
//! meanwhile may be missing.

mod counts;
mod options;

use std::collections::BTreeMap;

use crate::{
    Moment,
    walkers::mimalloc::{Map, Page, Segments},
};

use super::AllocatorKind;
use super::statistics::{Arena, Class, Numbers, Statistics, Value};
use counts::Counts;
use options::Options;

/// Where one is.
#[derive(Debug)]
pub struct Place {
    image: usize,
    options: Options,
    counts: Option<Counts>,
}

impl Place {
    /// Those of all modules that may have one, by their options.
    pub fn find(moment: &Moment<'_>, is_open: impl Fn(usize) -> bool) -> Vec<Self> {
        let images = moment.images().iter().enumerate().filter(|(image, _)| is_open(*image));
        let places = images.filter_map(|(image, own)| {
            let options = Options::find(moment, own)?;
            let counts = Counts::find(moment, &own.data, pages(moment).0);
            Some(Self { image, options, counts })
        });
        places.collect()
    }

    /// What it counts now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let mut all = Statistics {
            allocator: AllocatorKind::Mimalloc,
            module: moment.images().get(self.image)?.path.clone(),
            opt: self.options.settings(moment),
            ..Statistics::default()
        };
        match self.counts.as_ref().and_then(|counts| counts.read(moment)) {
            Some(counts) => all.stats = counts,
            None => all.unknown.push("what it counts for mi_stats_print: not found".to_owned()),
        }
        let (releases, pages) = pages(moment);
        all.version = releases.to_owned();
        if pages.is_empty() {
            all.unknown.push("pages: none was found, or this layout is unknown".to_owned());
            return Some(all);
        }
        let mut classes: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
        for page in &pages {
            let own = classes.entry(page.block).or_default();
            let more = [1, page.used, page.capacity];
            own.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
        }
        let sum = |index: usize| {
            let bytes = classes.iter().map(|(size, numbers)| size.saturating_mul(numbers[index]));
            bytes.fold(0, u64::saturating_add)
        };
        let (used, room) = (sum(1), sum(2));
        all.stats.extend([
            ("used", used),
            ("pages", room),
            ("free_in_pages", room.saturating_sub(used)),
            ("page_count", pages.len() as u64),
            ("blocks", classes.values().map(|numbers| numbers[1]).fold(0, u64::saturating_add)),
        ]);
        let bins = classes.into_iter().map(|(size, [pages, used, capacity])| Class {
            size,
            numbers: [("pages", pages), ("used", used), ("capacity", capacity)].into(),
            mutex: Numbers::new(),
        });
        all.arenas = vec![Arena { bins: bins.collect(), ..Arena::default() }];
        Some(all)
    }
}

/// All pages, and the releases that their layout fits.
fn pages(moment: &Moment<'_>) -> (&'static str, Vec<Page>) {
    if let Some(found) = Segments::find(moment) {
        return (found.layout.releases, found.pages);
    }
    let maps = Map::find(moment);
    let releases = maps.first().map_or("", |map| map.layout.releases);
    (releases, maps.into_iter().flat_map(|map| map.pages).collect())
}

/// Settings that are yes or no are numbers, as mimalloc has them.
fn value(number: u64) -> Value {
    Value::Number(number.cast_signed())
}
