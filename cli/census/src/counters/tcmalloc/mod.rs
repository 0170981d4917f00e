//! tcmalloc of gperftools 2.9 and later: what `GetStats` prints, by the names of its properties.
//!
//! ```text
//! variables of a module -> eleven counts of the page heap, that must add up
//!                       -> sizes of classes -> central lists, caches of threads
//! ```

use std::ops::Range;

use crate::{
    Moment, Window,
    walkers::tcmalloc::{Central, Sizes, caches},
};

use super::AllocatorKind;
use super::statistics::{Arena, Class, Numbers, Statistics};

/// The counts of the page heap, in their order.
const NAMES: [&str; 11] = [
    "generic.heap_size",
    "tcmalloc.pageheap_free_bytes",
    "tcmalloc.pageheap_unmapped_bytes",
    "tcmalloc.pageheap_committed_bytes",
    "tcmalloc.pageheap_scavenge_count",
    "tcmalloc.pageheap_commit_count",
    "tcmalloc.pageheap_total_commit_bytes",
    "tcmalloc.pageheap_decommit_count",
    "tcmalloc.pageheap_total_decommit_bytes",
    "tcmalloc.pageheap_reserve_count",
    "tcmalloc.pageheap_total_reserve_bytes",
];
/// What it calls a page.
const PAGE: u64 = 8192;
/// How often counts that do not add up, while one of them changes, are read.
const ATTEMPTS: u32 = 16;
/// Bytes of variables that are looked through, of each part of a module.
const LIMIT: u64 = 64 << 20;
/// Classes that there can be: the length of each table of theirs.
const CLASSES: u64 = 128;

/// Where one is.
#[derive(Debug)]
pub struct Place {
    image: usize,
    data: Vec<Range<u64>>,
    counts: u64,
    sizes: Sizes,
    /// By class: blocks that move together, and pages of a span.
    tables: Option<Vec<(u64, u64)>>,
    /// The first central list, and the bytes of one.
    centrals: Option<(u64, u64)>,
}

impl Place {
    /// Those of all modules that may have one.
    pub fn find(moment: &Moment<'_>, is_open: impl Fn(usize) -> bool) -> Vec<Self> {
        let images = moment.images().iter().enumerate().filter(|(image, _)| is_open(*image));
        let places = images.filter_map(|(image, own)| {
            let data = first(&own.data);
            let (at, sizes) = Sizes::place(moment, &data)?;
            let counts = counts(moment, &data)?;
            let tables = tables(moment, at, &sizes);
            let centrals = Central::place(moment, &data, &sizes);
            Some(Self { image, data, counts, sizes, tables, centrals })
        });
        places.collect()
    }

    /// What it counts now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let mut all = Statistics {
            allocator: AllocatorKind::Tcmalloc,
            version: "of gperftools".to_owned(),
            module: moment.images().get(self.image)?.path.clone(),
            ..Statistics::default()
        };
        let words = (0..ATTEMPTS).find_map(|_| {
            let words = moment.words(self.counts, NAMES.len())?;
            adds_up(&words).then_some(words)
        });
        let Some(words) = words else {
            all.unknown.push("its page heap: what it counts does not add up".to_owned());
            return Some(all);
        };
        all.stats = NAMES.into_iter().zip(words).collect();
        let central = self.central(moment, &mut all);
        let caches = caches(moment, &self.data, &self.sizes);
        let cached = caches.iter().map(|cache| cache.bytes).fold(0, u64::saturating_add);
        all.stats.extend([
            ("tcmalloc.thread_cache_free_bytes", cached),
            ("tcmalloc.current_total_thread_cache_bytes", cached),
            ("thread_heaps", caches.len() as u64),
        ]);
        match central {
            Some([central, transfer]) => {
                let free = [
                    cached,
                    central,
                    transfer,
                    all.total("tcmalloc.pageheap_free_bytes"),
                    all.total("tcmalloc.pageheap_unmapped_bytes"),
                ];
                let free = free.into_iter().fold(0, u64::saturating_add);
                all.stats.extend([
                    ("tcmalloc.central_cache_free_bytes", central),
                    ("tcmalloc.transfer_cache_free_bytes", transfer),
                    (
                        "generic.current_allocated_bytes",
                        all.total("generic.heap_size").saturating_sub(free),
                    ),
                ]);
            }
            None => all.unknown.push("central lists, and what is allocated: not found".to_owned()),
        }
        all.unknown.push("malloc metadata: nothing tells its variable from others".to_owned());
        Some(all)
    }

    /// Bytes in central lists, and in those that wait for threads.
    fn central(&self, moment: &Moment<'_>, all: &mut Statistics) -> Option<[u64; 2]> {
        let (first, stride) = self.centrals?;
        let tables = self.tables.as_ref()?;
        let mut sums = [0_u64; 2];
        let mut arena = Arena::default();
        for (class, (together, pages)) in (1..).zip(tables.iter().skip(1)) {
            let list = Central::read(moment, first + stride * u64::from(class))?;
            let size = self.sizes.of(class)?;
            let rest = (pages * PAGE) % size;
            let central =
                size.saturating_mul(list.free).saturating_add(list.spans.saturating_mul(rest));
            let transfer = size.saturating_mul(list.waiting()).saturating_mul(*together);
            sums[0] = sums[0].saturating_add(central);
            sums[1] = sums[1].saturating_add(transfer);
            if list.spans > 0 {
                let numbers = Numbers::from([
                    ("spans", list.spans),
                    ("central_free", list.free),
                    ("transfer_free", list.waiting().saturating_mul(*together)),
                ]);
                arena.bins.push(Class { size, numbers, mutex: Numbers::new() });
            }
        }
        all.arenas.push(arena);
        Some(sums)
    }
}

/// What of a module's variables is looked through: tables of a program's own can be far larger.
fn first(data: &[Range<u64>]) -> Vec<Range<u64>> {
    let parts = data.iter().map(|range| range.start..range.end.min(range.start + LIMIT));
    parts.collect()
}

/// Where the counts of the page heap are.
fn counts(moment: &Moment<'_>, data: &[Range<u64>]) -> Option<u64> {
    data.iter().flat_map(|range| moment.present(range)).find_map(|part| {
        let mut window = Window::new(moment, part.clone(), 1 << 16);
        part.step_by(8).find(|at| {
            let is_likely = window.word(*at).is_some_and(|system| {
                system >= PAGE
                    && system.is_multiple_of(PAGE)
                    && window.word(at + 80) == Some(system)
            });
            is_likely && moment.words(*at, NAMES.len()).is_some_and(|words| adds_up(&words))
        })
    })
}

/// Whether counts are those of a page heap: all that was reserved is committed or not, what is free is
/// committed.
fn adds_up(words: &[u64]) -> bool {
    let &[
        system,
        free,
        unmapped,
        committed,
        _,
        commits,
        given,
        decommits,
        taken,
        reserves,
        reserved,
    ] = words
    else {
        return false;
    };
    let is_size = |bytes: u64| bytes.is_multiple_of(PAGE) && bytes < 1 << 47;
    is_size(system)
        && system == reserved
        && reserves > 0
        && commits > 0
        && committed.checked_add(unmapped) == Some(system)
        && free <= committed
        && given.checked_sub(taken) == Some(committed)
        && (decommits > 0 || taken == 0)
}

/// Blocks that move together, and pages of a span, by class: tables before and behind that of sizes.
fn tables(moment: &Moment<'_>, at: u64, sizes: &Sizes) -> Option<Vec<(u64, u64)>> {
    let together = at.checked_sub(4 * CLASSES)?;
    let pages = (at + 4 * CLASSES).next_multiple_of(8);
    let row = |(class, size): (u64, &u64)| {
        if class == 0 {
            return Some((0, 0));
        }
        let word = moment.word((together + 4 * class) & !7)?;
        let together =
            if (together + 4 * class).is_multiple_of(8) { word & 0xffff_ffff } else { word >> 32 };
        let pages = moment.word(pages + 8 * class)?;
        let is_sound = (1..=1 << 16).contains(&together)
            && (1..=1 << 16).contains(&pages)
            && pages * PAGE >= *size;
        is_sound.then_some((together, pages))
    };
    (0..).zip(&sizes.0).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_page_heap_are_known_by_their_sums() {
        let good = [1 << 20, 8192, 1 << 19, 1 << 19, 3, 2, 1 << 20, 1, 1 << 19, 1, 1 << 20];
        assert!(adds_up(&good));
        for changed in [0, 2, 3, 6, 8, 10] {
            let mut words = good;
            words[changed] += PAGE;
            assert!(!adds_up(&words), "{changed}");
        }
        assert!(!adds_up(&good[..10]));
    }
}
