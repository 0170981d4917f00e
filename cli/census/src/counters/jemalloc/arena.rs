//! What one arena counts, read in one go while its threads go on.
//!
//! Each counter is a word that is written whole, so each is right at the instant it is read; two of them can
//! be of different instants, as they are for the allocator itself.

use std::collections::{BTreeMap, HashSet};

use heapattach_process::little_endian::{u32_at, u64_at};

use crate::{
    Moment,
    counters::statistics::{Arena, Class, Numbers, ThreadCount},
    walkers::jemalloc::{Quantum, Row},
};

use super::{
    layout::{Extents, Layout},
    threads,
};

const PAGE: u64 = 4096;
/// No more threads are believed in.
const MOST_CACHES: usize = 1 << 17;
/// Large classes.
const LARGE: u32 = 196;

/// What is the same of all arenas.
#[derive(Debug)]
pub struct Heap<'a> {
    /// The layout.
    pub layout: &'static Layout,
    /// The step of size classes.
    pub quantum: Quantum,
    /// Small classes.
    pub rows: &'a [Row],
    /// Bins that a thread cache has.
    pub cache_bins: u64,
}

/// What the ring of caches of an arena has.
#[derive(Debug, Default)]
struct Caches {
    /// As jemalloc counts them itself, and more than these.
    bytes: [u64; 2],
    /// Threads that they are of.
    threads: Vec<ThreadCount>,
    /// Threads that could not be told.
    unknown: u64,
    /// The ring could not be followed.
    broken: bool,
}

/// A copy of an arena.
struct Copy<'a> {
    bytes: &'a [u8],
}

impl Copy<'_> {
    fn word(&self, at: u64) -> u64 {
        usize::try_from(at).ok().and_then(|at| u64_at(self.bytes, at)).unwrap_or(0)
    }

    fn half(&self, at: u64) -> u64 {
        u64::from(usize::try_from(at).ok().and_then(|at| u32_at(self.bytes, at)).unwrap_or(0))
    }

    fn lock(&self, at: u64, layout: &Layout) -> Numbers {
        Numbers::from([
            ("total_wait_time", self.word(at)),
            ("max_wait_time", self.word(at + 8)),
            ("num_wait", self.word(at + 16)),
            ("num_spin_acq", self.word(at + 24)),
            ("max_num_thds", self.half(at + 32)),
            ("num_owner_switch", self.word(at + layout.lock_switches)),
            ("num_ops", self.word(at + layout.lock_operations)),
        ])
    }

    fn pages(&self, Extents { pages: [plain, guarded], .. }: &Extents) -> u64 {
        let guarded = if *guarded == 0 { 0 } else { self.word(*guarded) };
        self.word(*plain).saturating_add(guarded)
    }
}

impl Heap<'_> {
    /// The arena at an address. With what is uncertain of it.
    pub fn read(&self, moment: &Moment<'_>, at: u64, unknown: &mut Vec<String>) -> Option<Arena> {
        let layout = self.layout;
        let bytes = moment.bytes(at, usize::try_from(layout.arena).ok()?)?;
        let own = Copy { bytes: &bytes };
        let base = own.word(layout.base);
        let index = u32_at(&moment.bytes(base, 4)?, 0)?;
        let mut arena = Arena { index, ..Arena::default() };
        let (small, large) = (self.bins(moment, at, &own)?, self.large(&own));
        let base = self.base(moment, base, &mut arena)?;
        let [active, dirty, muzzy, retained] = [
            own.word(layout.active),
            own.pages(&layout.extents[0]),
            own.pages(&layout.extents[1]),
            own.pages(&layout.extents[2]),
        ];
        // Before 5.3 muzzy pages counted as resident.
        let resident = active + dirty + if layout.hpa.is_none() { muzzy } else { 0 };
        let sum = |classes: &[Class], name: &str| {
            let all = classes.iter().filter_map(|class| class.numbers.get(name));
            all.fold(0, |sum: u64, number| sum.saturating_add(*number))
        };
        let allocated = |classes: &[Class], name: &str| {
            let all = classes.iter().map(|class| class.size.saturating_mul(class.numbers[name]));
            all.fold(0, u64::saturating_add)
        };
        let live = match layout.large_row.live {
            Some(_) => sum(&large, "active_bytes"),
            None => allocated(&large, "curlextents"),
        };
        let caches = self.caches(moment, own.word(layout.caches));
        let Caches { bytes: [tcache_bytes, more], threads, unknown: strangers, broken } = caches;
        if strangers > 0 {
            unknown.push(format!(
                "what {strangers} threads of arena {index} allocate: their control blocks were not found"
            ));
        }
        arena.threads = threads;
        if broken {
            unknown
                .push(format!("what the thread caches of arena {index} have: their list changes"));
        }
        arena.numbers.extend([
            ("nthreads", own.half(0)),
            ("pactive", active),
            ("pdirty", dirty),
            ("pmuzzy", muzzy),
            ("mapped", base[2].saturating_add(own.word(layout.mapped))),
            ("retained", retained.saturating_mul(PAGE)),
            ("base", base[0]),
            ("internal", own.word(layout.internal)),
            ("metadata_thp", base[3]),
            ("resident", base[1].saturating_add(resident.saturating_mul(PAGE))),
            ("abandoned_vm", own.word(layout.abandoned)),
            ("tcache_bytes", tcache_bytes),
            ("tcache_uncounted_bytes", more),
            ("small.allocated", allocated(&small, "curregs")),
            ("large.allocated", live),
        ]);
        const COUNTS: [[&str; 3]; 2] = [
            ["dirty_npurge", "dirty_nmadvise", "dirty_purged"],
            ["muzzy_npurge", "muzzy_nmadvise", "muzzy_purged"],
        ];
        for (decay, names) in layout.decay.iter().zip(COUNTS) {
            let counts = (0..).step_by(8).zip(names);
            arena.numbers.extend(counts.map(|(at, name)| (name, own.word(decay.counts + at))));
        }
        for (decay, name) in layout.decay.iter().zip(["dirty_decay_ms", "muzzy_decay_ms"]) {
            arena.settings.insert(name, own.word(decay.time).cast_signed());
        }
        let [dirty, muzzy, retained] = &layout.extents;
        let locks = [
            ("large", layout.large_lock),
            ("extent_avail", layout.avail_lock),
            ("extents_dirty", dirty.lock),
            ("extents_muzzy", muzzy.lock),
            ("extents_retained", retained.lock),
            ("decay_dirty", layout.decay[0].lock),
            ("decay_muzzy", layout.decay[1].lock),
            ("tcache_list", layout.caches_lock),
        ];
        arena.mutexes.extend(locks.map(|(name, at)| (name, own.lock(at, layout))));
        if layout.hpa.is_some_and(|at| own.word(at) & 0xff != 0) {
            unknown
                .push(format!("pages of arena {index} in huge pages that it divides itself (hpa)"));
        }
        (arena.bins, arena.lextents) = (small, large);
        Some(arena)
    }

    /// Bytes allocated, resident, mapped, and huge pages; and the lock.
    fn base(&self, moment: &Moment<'_>, at: u64, arena: &mut Arena) -> Option<[u64; 4]> {
        let layout = self.layout;
        let shift = self.quantum.base_shift();
        let length = layout.base_counts[3] + shift + 8;
        let bytes = moment.bytes(at, usize::try_from(length).ok()?)?;
        let own = Copy { bytes: &bytes };
        arena.mutexes.insert("base", own.lock(layout.base_lock, layout));
        Some(layout.base_counts.map(|count| own.word(count + shift)))
    }

    fn bins(&self, moment: &Moment<'_>, at: u64, own: &Copy<'_>) -> Option<Vec<Class>> {
        let layout = self.layout;
        let mut behind = at + layout.bins;
        let mut classes = Vec::new();
        for (number, row) in (0..).zip(self.rows) {
            // Behind the arena in the order of classes, or where the class has a pointer to.
            let first =
                if layout.hpa.is_some() { behind } else { own.word(layout.bins + 8 * number) };
            let length = layout.bin.bytes * row.shards;
            behind += length;
            let bytes = moment.bytes(first, usize::try_from(length).ok()?)?;
            let bins = Copy { bytes: &bytes };
            let mut class = Class { size: row.bytes, ..Class::default() };
            for at in (0..row.shards).map(|shard| shard * layout.bin.bytes) {
                const NAMES: [&str; 10] = [
                    "nmalloc",
                    "ndalloc",
                    "nrequests",
                    "curregs",
                    "nfills",
                    "nflushes",
                    "nslabs",
                    "nreslabs",
                    "curslabs",
                    "nonfull_slabs",
                ];
                let from = at + layout.bin.statistics;
                let numbers = (from..).step_by(8).zip(NAMES);
                let numbers = numbers.map(|(at, name)| (name, bins.word(at))).collect();
                crate::counters::statistics::add(&mut class.numbers, &numbers);
                crate::counters::statistics::add(&mut class.mutex, &bins.lock(at, layout));
            }
            class.numbers.extend([
                ("nregs", row.regions),
                ("slab_size", row.slab),
                ("nshards", row.shards),
            ]);
            classes.push(class);
        }
        Some(classes)
    }

    fn large(&self, own: &Copy<'_>) -> Vec<Class> {
        let row = &self.layout.large_row;
        let classes = (0..LARGE).filter_map(|number| {
            let at = self.layout.large + row.bytes * u64::from(number);
            let (more, less) = (own.word(at), own.word(at + 8));
            let mut numbers = BTreeMap::from([
                ("nmalloc", more),
                ("ndalloc", less),
                ("nrequests", more.saturating_add(own.word(at + row.requests))),
                ("nfills", more),
                ("nflushes", own.word(at + row.flushes)),
                ("curlextents", more.saturating_sub(less)),
            ]);
            if let Some(live) = row.live {
                numbers.insert("active_bytes", own.word(at + live));
            }
            let size = self.quantum.bytes(self.quantum.small() + number)?;
            (more > 0).then_some(Class { size, numbers, mutex: Numbers::new() })
        });
        classes.collect()
    }

    /// What the ring of caches has.
    fn caches(&self, moment: &Moment<'_>, first: u64) -> Caches {
        let (mut at, mut caches, mut seen) = (first, Caches::default(), HashSet::new());
        while at != 0 {
            let is_new = seen.insert(at) && seen.len() <= MOST_CACHES;
            let words = if is_new { moment.words(at, 4) } else { None };
            let bytes = words.as_ref().and_then(|words| self.cached(moment, words[2], words[3]));
            let (Some(words), Some(bytes)) = (words, bytes) else {
                caches.broken = true;
                return caches;
            };
            for (sum, bytes) in caches.bytes.iter_mut().zip(bytes) {
                *sum = sum.saturating_add(bytes);
            }
            if self.layout.hpa.is_some() && threads::is_of_a_thread(moment, at, words[2]) {
                match threads::count(moment, at, words[2]) {
                    Some(count) => caches.threads.push(count),
                    None => caches.unknown += 1,
                }
            }
            at = if words[0] == first { 0 } else { words[0] };
        }
        caches
    }

    fn cached(&self, moment: &Moment<'_>, small: u64, large: u64) -> Option<[u64; 2]> {
        let row = usize::try_from(self.layout.cache_row).ok()?;
        let count = usize::try_from(self.cache_bins).ok()?;
        let is_new = self.layout.hpa.is_some();
        let first = if is_new { count } else { usize::try_from(self.quantum.small()).ok()? };
        let mut bytes = moment.bytes(small, row * first)?;
        if let Some(rest @ 1..) = count.checked_sub(first) {
            bytes.extend(moment.bytes(large, row * rest)?);
        }
        let mut sum = [0_u64; 2];
        for (class, bin) in (0..).zip(bytes.chunks_exact(row)) {
            let blocks = match is_new {
                // How far the newest one is from where an empty stack begins; low bits tell.
                true => {
                    let (head, ends) = (u64_at(bin, 0)?, u64_at(bin, 16)?);
                    ((ends >> 32).wrapping_sub(head) & 0xffff) / 8
                }
                false => u64::from(u32_at(bin, 4)?),
            };
            // 5.2.1 looks for large ones in a wrong place, and never counts them.
            let sum = &mut sum[usize::from(!is_new && class >= self.quantum.small())];
            *sum = sum.saturating_add(blocks.saturating_mul(self.quantum.bytes(class)?));
        }
        Some(sum)
    }
}
