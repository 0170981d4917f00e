//! Counters of healthy processes, for tests that make one thing wrong.

use std::collections::BTreeMap;

use heapattach_census::counters::{AllocatorKind, Arena, Class, Numbers, Statistics, Value};

use super::{Conditions, Scene};

const MIB: u64 = 1 << 20;

/// One.
#[derive(Clone, Debug)]
pub struct Sample {
    pub now: Statistics,
    pub conditions: Conditions,
}

impl Sample {
    fn of(allocator: AllocatorKind, stats: Numbers) -> Self {
        let now = Statistics { allocator, stats, ..Statistics::default() };
        let conditions = Conditions {
            threads: 8,
            cpus: 4,
            resident: 520 * MIB,
            running_s: 1000,
            ..Conditions::default()
        };
        Self { now, conditions }
    }

    /// 500 MiB in eight arenas.
    pub fn jemalloc() -> Self {
        let stats = [
            ("allocated", 500 * MIB),
            ("active", 510 * MIB),
            ("resident", 520 * MIB),
            ("metadata", 5 * MIB),
            ("dirty", 2 * MIB),
            ("muzzy", 0),
            ("tcache_bytes", MIB),
            ("narenas", 8),
            ("nthreads", 8),
        ];
        let mut sample = Self::of(AllocatorKind::Jemalloc, stats.into());
        let class = Class {
            size: 512,
            numbers: Numbers::from([
                ("curregs", 100_000),
                ("curslabs", 12_600),
                ("nregs", 8),
                ("slab_size", 4096),
                ("nrequests", 1_000_000),
                ("nfills", 10_000),
                ("nmalloc", 200_000),
            ]),
            mutex: Numbers::from([("total_wait_time", 0), ("num_wait", 0)]),
        };
        let arena = Arena {
            bins: vec![class],
            mutexes: BTreeMap::from([("extents_dirty", Numbers::new())]),
            settings: BTreeMap::from([("dirty_decay_ms", 10_000), ("muzzy_decay_ms", 0)]),
            ..Arena::default()
        };
        sample.now.arenas = vec![arena];
        sample.now.opt = BTreeMap::from([
            ("background_thread".to_owned(), Value::Flag(false)),
            ("dirty_decay_ms".to_owned(), Value::Number(10_000)),
        ]);
        sample
    }

    /// 400 MiB in two arenas.
    pub fn glibc() -> Self {
        let mut sample = Self::of(
            AllocatorKind::Glibc,
            Numbers::from([
                ("system.current", 400 * MIB),
                ("free", 8 * MIB),
                ("top", MIB),
                ("narenas", 2),
                ("nthreads", 8),
            ]),
        );
        let arena = |index, system, free| Arena {
            index,
            numbers: Numbers::from([
                ("system.current", system),
                ("rest.size", free),
                ("top", MIB / 2),
            ]),
            ..Arena::default()
        };
        sample.now.arenas = vec![arena(0, 300 * MIB, 6 * MIB), arena(1, 100 * MIB, 2 * MIB)];
        sample
    }

    /// 400 MiB.
    pub fn tcmalloc() -> Self {
        let stats = [
            ("generic.current_allocated_bytes", 380 * MIB),
            ("generic.heap_size", 400 * MIB),
            ("tcmalloc.pageheap_free_bytes", 5 * MIB),
            ("tcmalloc.current_total_thread_cache_bytes", 2 * MIB),
        ];
        Self::of(AllocatorKind::Tcmalloc, stats.into())
    }

    /// 400 MiB.
    pub fn mimalloc() -> Self {
        let stats = [("used", 380 * MIB), ("pages", 400 * MIB), ("free_in_pages", 15 * MIB)];
        Self::of(AllocatorKind::Mimalloc, stats.into())
    }

    /// 300 MiB of objects.
    pub fn go() -> Self {
        let stats = [
            ("HeapAlloc", 300 * MIB),
            ("HeapInuse", 320 * MIB),
            ("HeapIdle", 100 * MIB),
            ("HeapReleased", 95 * MIB),
            ("live_after_gc", 200 * MIB),
            ("NextGC", 400 * MIB),
            ("mapped_ready", 340 * MIB),
            ("NumGC", 500),
            ("GCCPUFraction.ppm", 20_000),
            ("NumGoroutine", 100),
            ("goroutines.waiting", 90),
            ("goroutines.stacks", MIB),
        ];
        let mut sample = Self::of(AllocatorKind::Go, stats.into());
        sample.now.opt = BTreeMap::from([
            ("GOGC".to_owned(), Value::Number(100)),
            ("GOMEMLIMIT".to_owned(), Value::Text("off".to_owned())),
        ]);
        sample
    }

    /// To be looked at.
    pub fn scene(&self) -> Scene<'_> {
        Scene { now: &self.now, before: None, conditions: &self.conditions }
    }

    /// With another setting.
    pub fn set(mut self, name: &str, value: Value) -> Self {
        self.now.opt.insert(name.to_owned(), value);
        self
    }

    /// With another sum.
    pub fn with(mut self, name: &'static str, number: u64) -> Self {
        self.now.stats.insert(name, number);
        self
    }
}
