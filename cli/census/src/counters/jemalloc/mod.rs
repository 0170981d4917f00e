//! jemalloc 5.2.1, 5.3.0 and 5.3.1, of the system, bundled, prefixed, in Rust, stripped or not.
//!
//! ```text
//! variables of a module -> the table of arenas, by what each of them leads back to -> counters (layout)
//! constants of a module -> the tree of mallctl's names -> settings, by following the getters (getter)
//! ```
//!
//! A version of which there is no table has its settings told, and nothing else.

mod arena;
mod controls;
mod getter;
mod layout;

use std::collections::BTreeMap;

use crate::{
    Image, Moment, Window,
    walkers::jemalloc::{Bins, Quantum, Row},
};

use super::statistics::{Numbers, Statistics, Value};
use arena::Heap;
use controls::Controls;
use layout::{ALL, Layout};

/// Arenas have numbers below.
const MOST_ARENAS: u64 = 4096;
const PAGE: u64 = 4096;
/// What an arena lies at multiples of.
const ALIGNED: u64 = 64;
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
            let arenas = Arenas::find(moment, image);
            // What no layout fits is found by its name; the program itself may have one in it.
            let is_likely = number == 0 || image.path.contains("jemalloc");
            let controls =
                (arenas.is_some() || is_likely).then(|| Controls::find(moment, image)).flatten();
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

    /// What it counts now.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let image = moment.images().get(self.image)?;
        let mut all = Statistics {
            allocator: "jemalloc",
            module: image.path.clone(),
            ..Statistics::default()
        };
        let told = self.controls.as_ref().and_then(|controls| {
            all.opt = controls.settings(moment, image);
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
    /// The table in the module's variables: each word of it leads to an arena with that number.
    fn find(moment: &Moment<'_>, image: &Image) -> Option<Self> {
        let mut tables: BTreeMap<(usize, u64), u64> = BTreeMap::new();
        for part in image.data.iter().flat_map(|range| moment.present(range)) {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            for at in part.step_by(8) {
                let Some(word) = window.word(at) else { break };
                let Some((layout, index)) = arena(moment, word) else { continue };
                let Some(table) = at.checked_sub(8 * index) else { continue };
                *tables.entry((layout, table)).or_default() += 1;
            }
        }
        // The first arena is there from the start.
        let tables = tables.into_iter().filter(|((layout, table), _)| {
            let first = moment.word(*table).and_then(|word| arena(moment, word));
            first == Some((*layout, 0))
        });
        let ((layout, table), _) = tables.max_by_key(|(_, count)| *count)?;
        let (quantum, bins) = [Quantum::Sixteen, Quantum::Eight]
            .into_iter()
            .find_map(|quantum| Some((quantum, Bins::find(moment, &image.data, quantum)?)))?;
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
            if arena(moment, at).is_none_or(|(_, own)| own != index) {
                // Numbers that no thread came to yet are empty; what follows the table is not.
                if at != 0 {
                    break;
                }
                continue;
            }
            match heap.read(moment, at, &mut all.unknown) {
                Some(arena) => all.arenas.push(arena),
                None => all.unknown.push(format!("arena {index}: its books cannot be read")),
            }
        }
        all.stats = sums(all);
        let has_counts = all.arenas.iter().flat_map(|arena| &arena.bins);
        if has_counts.flat_map(|class| class.numbers.get("nmalloc")).all(|count| *count == 0) {
            all.unknown.push("calls, blocks and locks: this build keeps no statistics".to_owned());
            for name in ["allocated", "metadata", "resident", "mapped"] {
                all.stats.remove(name);
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

/// Which layout an arena at that address has, and its number.
fn arena(moment: &Moment<'_>, at: u64) -> Option<(usize, u64)> {
    let is_place = (PAGE..1 << 47).contains(&at) && at.is_multiple_of(ALIGNED);
    if !is_place || !moment.region(at)?.is_private_memory() {
        return None;
    }
    ALL.iter().enumerate().find_map(|(number, layout)| {
        let base = moment.word(at + layout.base)?;
        let is_near = base.is_multiple_of(8) && base != at && base.abs_diff(at) < NEAR;
        let index = is_near.then(|| moment.word(base))?? & 0xffff_ffff;
        let blocks = moment.word(base + layout.base_blocks)?;
        let size = moment.word(blocks).filter(|_| blocks.is_multiple_of(PAGE) && blocks > 0)?;
        let is_base = size.is_multiple_of(PAGE) && (PAGE..1 << 40).contains(&size);
        (is_base && index < MOST_ARENAS).then_some((number, index))
    })
}
