//! jemalloc 5.2.1, 5.3.0 and 5.3.1, of the system, bundled, prefixed, in Rust, stripped or not.
//!
//! ```text
//! variables of a module -> the table of arenas, by what each of them leads back to -> counters (layout)
//! constants of a module -> the tree of mallctl's names -> settings, by following the getters (arch: getter)
//! ```
//!
//! A version of which there is no table has its settings told, and nothing else.

mod arch;
mod arena;
mod controls;
mod layout;
mod threads;

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
};

use crate::{
    Image, Moment, Region, Window,
    walkers::jemalloc::{Bins, Quantum, Row},
};

use super::AllocatorKind;
use super::statistics::{Numbers, Statistics, Value};
use arena::Heap;
use controls::Controls;
use layout::{ALL, Layout};

/// Arenas have numbers below.
const MOST_ARENAS: u64 = 4095;
const PAGE: u64 = 4096;
/// What builds without statistics keep all the same, in all and by arena.
const PAGES: [&str; 6] = ["active", "dirty", "muzzy", "retained", "narenas", "nthreads"];
const PAGES_OF_ARENAS: [&str; 5] = ["pactive", "pdirty", "pmuzzy", "retained", "nthreads"];
/// What an arena lies at multiples of.
const ALIGNED: u64 = 64;
/// How far from the variables of settings the table of arenas is looked for at first.
const BESIDE: u64 = 4 << 20;
/// A base and its arena lie in one block, or not far from each other.
const NEAR: u64 = 1 << 30;

/// Where one is.
#[derive(Debug)]
pub struct Place {
    image: usize,
    controls: Option<Controls>,
    arenas: Option<Arenas>,
    nhbins: Option<i64>,
}

/// Where its arenas are.
#[derive(Debug)]
struct Arenas {
    layout: &'static Layout,
    /// The table.
    table: u64,
    quantum: Quantum,
    rows: Vec<Row>,
}

impl Place {
    /// Those of all modules.
    pub fn find(moment: &Moment<'_>) -> Vec<Self> {
        let images = moment.images().iter().enumerate();
        let places = images.filter_map(|(number, image)| {
            let controls = Controls::find(moment, image);
            if controls.is_none() && !image.path.contains("jemalloc") {
                return None;
            }
            let arenas = Arenas::of(moment, image, controls.as_ref());
            if arenas.is_none() && controls.is_none() {
                return None;
            }
            let nhbins = controls
                .as_ref()
                .and_then(|controls| controls.value(moment, image, "arenas.nhbins")?.number());
            Some(Self { image: number, controls, arenas, nhbins })
        });
        places.collect()
    }

    /// The module, if all was found.
    pub fn image(&self) -> Option<usize> {
        (self.controls.is_some() && self.arenas.is_some()).then_some(self.image)
    }

    /// What it counts now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let image = moment.images().get(self.image)?;
        let mut all = Statistics {
            allocator: AllocatorKind::Jemalloc,
            module: image.path.clone(),
            ..Statistics::default()
        };
        let told = self.controls.as_ref().and_then(|controls| {
            all.opt = controls.settings(moment, image);
            all.variable = controls.environment(moment).unwrap_or_else(|| "MALLOC_CONF".to_owned());
            for (from, name) in
                [("compiled", "config.malloc_conf"), ("program", "opt.malloc_conf.global_var")]
            {
                if let Some(Value::Text(text)) = controls.value(moment, image, name)
                    && !text.is_empty()
                {
                    all.conf.insert(from, text);
                }
            }
            match controls.value(moment, image, "version")? {
                Value::Text(version) => Some(version),
                Value::Flag(_) | Value::Number(_) => None,
            }
        });
        if self.controls.is_none() {
            all.unknown.push("settings: the names of its controls were not found".to_owned());
        }
        let Some(arenas) = &self.arenas else {
            let which = told.clone().unwrap_or_else(|| "of an unknown version".to_owned());
            let releases: Vec<_> = ALL.iter().map(|layout| layout.release).collect();
            all.unknown.push(format!(
                "counters: no table for jemalloc {which}; there are tables for {}",
                releases.join(", ")
            ));
            all.version = told.unwrap_or_default();
            return Some(all);
        };
        all.version = told.unwrap_or_else(|| arenas.layout.release.to_owned());
        if !all.version.starts_with(arenas.layout.release) {
            let (own, release) = (&all.version, arenas.layout.release);
            let why =
                format!("counters: version {own} has arenas that look like those of {release}");
            all.unknown.push(why);
            return Some(all);
        }
        arenas.read(moment, self.nhbins, &mut all);
        Some(all)
    }
}

impl Arenas {
    /// Near the variables of settings, which are of the same source file; else anywhere in the module.
    fn of(moment: &Moment<'_>, image: &Image, controls: Option<&Controls>) -> Option<Self> {
        let names = ["opt.narenas", "opt.abort", "opt.xmalloc"];
        let known = names.iter().filter_map(|name| controls?.variable(moment, name));
        let near = known.flat_map(|at| {
            let near = at.saturating_sub(BESIDE)..at.saturating_add(BESIDE);
            let parts = image
                .data
                .iter()
                .map(move |data| data.start.max(near.start) & !7..data.end.min(near.end));
            parts.filter(|part| part.start < part.end).collect::<Vec<_>>()
        });
        let mut near: Vec<_> = near.collect();
        near.dedup();
        let near = (!near.is_empty()).then(|| Self::find(moment, image, &near)).flatten();
        near.or_else(|| Self::find(moment, image, &image.data))
    }

    /// The table in these variables: each word of it leads to an arena with that number.
    fn find(moment: &Moment<'_>, image: &Image, data: &[Range<u64>]) -> Option<Self> {
        let mut tables: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        // Variables of a program can have the same address many times.
        let mut known: HashMap<u64, Option<(usize, u64)>> = HashMap::new();
        for part in data.iter().flat_map(|range| moment.present(range)) {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            for at in part.step_by(8) {
                let Some(word) = window.word(at) else { break };
                let is_memory = || moment.region(word).is_some_and(Region::is_private_memory);
                if !is_place(word) || !is_memory() {
                    continue;
                }
                let found = *known.entry(word).or_insert_with(|| arena(moment, word));
                let Some((layout, index)) = found else { continue };
                let Some(table) = at.checked_sub(8 * index) else { continue };
                *tables.entry((layout, table)).or_default() += 1;
            }
        }
        // The first arena is there from the start, and another variable leads to it, too: behind that are others.
        let tables = tables.into_iter().filter(|((layout, table), _)| {
            let first = moment.word(*table).and_then(|word| arena(moment, word));
            let is_own = |(index, word): (u64, &u64)| {
                *word == 0 || arena(moment, *word) == Some((*layout, index))
            };
            let all = || moment.words(*table, usize::try_from(MOST_ARENAS).ok()?);
            first == Some((*layout, 0)) && all().is_some_and(|all| (0..).zip(&all).all(is_own))
        });
        let ((layout, table), _) = tables.max_by_key(|(_, count)| *count)?;
        let (quantum, bins) =
            [Quantum::Sixteen, Quantum::Eight].into_iter().find_map(|quantum| {
                let near = Bins::find(moment, data, quantum);
                Some((quantum, near.or_else(|| Bins::find(moment, &image.data, quantum))?))
            })?;
        Some(Self { layout: &ALL[layout], table, quantum, rows: bins.0 })
    }

    fn read(&self, moment: &Moment<'_>, nhbins: Option<i64>, all: &mut Statistics) {
        let counted = nhbins.and_then(|count| u64::try_from(count).ok());
        let most = match self.layout.cache_bins {
            Some(count) => count + u64::from(self.quantum.classes() - 232),
            None => u64::from(self.quantum.classes()),
        };
        let small = u64::from(self.quantum.small());
        let (layout, quantum) = (self.layout, self.quantum);
        let cache_bins = counted.filter(|count| (small..=most).contains(count));
        // 5.3.1 asks every bin that there can be, others those that caches have.
        let cache_bins =
            cache_bins.unwrap_or(if layout.cache_bins.is_some() { most } else { small });
        let heap = Heap { layout, quantum, rows: &self.rows, cache_bins };
        for index in 0..MOST_ARENAS {
            let Some(at) = moment.word(self.table + 8 * index) else { break };
            // Numbers that no thread came to yet are empty.
            if at == 0 {
                continue;
            }
            let is_own = arena(moment, at).is_some_and(|(_, own)| own == index);
            let read = is_own.then(|| heap.read(moment, at, &mut all.unknown)).flatten();
            match read {
                Some(arena) => all.arenas.push(arena),
                None => all.unknown.push(format!("arena {index}: its books cannot be read")),
            }
        }
        all.stats = sums(all);
        let has_counts = all.arenas.iter().flat_map(|arena| &arena.bins);
        if has_counts.flat_map(|class| class.numbers.get("nmalloc")).all(|count| *count == 0) {
            all.unknown.push("calls, blocks and locks: this build keeps no statistics".to_owned());
            all.stats.retain(|name, _| PAGES.contains(name));
            for arena in &mut all.arenas {
                arena.numbers.retain(|name, _| PAGES_OF_ARENAS.contains(name));
                (arena.bins, arena.lextents) = (Vec::new(), Vec::new());
                arena.mutexes.clear();
            }
        }
    }
}

/// What `stats.*` has.
fn sums(all: &Statistics) -> Numbers {
    let sum = |name| all.sum(name);
    Numbers::from([
        ("allocated", sum("small.allocated").saturating_add(sum("large.allocated"))),
        ("active", sum("pactive").saturating_mul(PAGE)),
        ("metadata", sum("base").saturating_add(sum("internal"))),
        ("metadata_thp", sum("metadata_thp")),
        ("resident", sum("resident")),
        ("mapped", sum("mapped")),
        ("retained", sum("retained")),
        ("dirty", sum("pdirty").saturating_mul(PAGE)),
        ("muzzy", sum("pmuzzy").saturating_mul(PAGE)),
        ("tcache_bytes", sum("tcache_bytes")),
        ("narenas", all.arenas.len() as u64),
        ("nthreads", sum("nthreads")),
    ])
}

/// Whether an arena can lie there.
fn is_place(at: u64) -> bool {
    (PAGE..1 << 47).contains(&at) && at.is_multiple_of(ALIGNED)
}

/// Which layout an arena at that address has, and its number.
fn arena(moment: &Moment<'_>, at: u64) -> Option<(usize, u64)> {
    if !is_place(at) || !moment.region(at)?.is_private_memory() {
        return None;
    }
    ALL.iter().enumerate().find_map(|(number, layout)| {
        let base = moment.word(at + layout.base)?;
        let is_near = base.is_multiple_of(8) && base != at && base.abs_diff(at) < NEAR;
        let index = is_near.then(|| moment.word(base))?? & 0xffff_ffff;
        let blocks = moment.word(base + layout.base_blocks)?;
        let is_size = |size: u64| size.is_multiple_of(PAGE) && (PAGE..1 << 40).contains(&size);
        // The newest block may have been mapped after the map was read.
        let has_size = moment.region(blocks).is_none() || moment.word(blocks).is_some_and(is_size);
        let is_base = (PAGE..1 << 47).contains(&blocks) && blocks.is_multiple_of(PAGE) && has_size;
        (is_base && index < MOST_ARENAS).then_some((number, index))
    })
}
