//! What an allocator counts, by the names that it gives its numbers itself.

use std::collections::BTreeMap;

use serde::Serialize;

use super::AllocatorKind;

/// Numbers by name.
pub type Numbers = BTreeMap<&'static str, u64>;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A number; -1 often means never.
    Number(i64),
    /// A word, or what was written.
    Text(String),
}

impl Value {
    /// As it is written in a setting.
    pub fn told(&self) -> String {
        match self {
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    /// If it is a number.
    pub fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

/// What is counted for blocks of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Class {
    /// The bytes of a block.
    pub size: u64,
    /// Numbers of the class.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Its lock, if it has one.
    #[serde(skip_serializing_if = "Numbers::is_empty")]
    pub mutex: Numbers,
}

/// What a thread counts itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThreadCount {
    /// Its number, as it is within its own namespace of processes.
    pub tid: i32,
    /// Bytes that it has allocated since it began.
    pub allocated: u64,
    /// Bytes that it has freed since.
    pub deallocated: u64,
}

/// What an arena counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Arena {
    /// Its number.
    pub index: u32,
    /// Numbers of the arena.
    #[serde(flatten)]
    pub numbers: Numbers,
    /// Settings that each arena has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<&'static str, i64>,
    /// By size, those that are cut out of slabs or pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bins: Vec<Class>,
    /// By size, those that have pages of their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lextents: Vec<Class>,
    /// Locks by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mutexes: BTreeMap<&'static str, Numbers>,
    /// Threads that use it, where they count for themselves.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<ThreadCount>,
}

/// What an allocator counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Its kind.
    pub allocator: AllocatorKind,
    /// Its version, as it tells it itself, or the releases whose layout it has.
    pub version: String,
    /// The module that has its variables.
    pub module: String,
    /// Its settings.
    pub opt: BTreeMap<String, Value>,
    /// The environment variable that has its settings, if it is one for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variable: String,
    /// Settings that were not given from outside: by what was built in, and by a variable of the program.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub conf: BTreeMap<&'static str, String>,
    /// Sums over all arenas.
    pub stats: Numbers,
    /// Each arena.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arenas: Vec<Arena>,
    /// What is not told, and why.
    pub unknown: Vec<String>,
}

impl Statistics {
    /// One of the sums; 0 if it is not counted.
    pub fn total(&self, name: &str) -> u64 {
        self.stats.get(name).copied().unwrap_or(0)
    }

    /// A number of all arenas together.
    pub fn sum(&self, name: &str) -> u64 {
        let all = self.arenas.iter().filter_map(|arena| arena.numbers.get(name));
        all.fold(0, |sum, number| sum.saturating_add(*number))
    }

    /// Classes of all arenas together, by size, ascending.
    pub fn bins(&self) -> Vec<Class> {
        let mut all: BTreeMap<u64, Class> = BTreeMap::new();
        for class in self.arenas.iter().flat_map(|arena| &arena.bins) {
            let own = all
                .entry(class.size)
                .or_insert_with(|| Class { size: class.size, ..Class::default() });
            add(&mut own.numbers, &class.numbers);
            add(&mut own.mutex, &class.mutex);
        }
        all.into_values().collect()
    }

    /// What of a class's slabs is in no block, ascending: bytes, size, and how full they are in percent.
    pub fn slab_gaps(&self) -> Vec<(u64, u64, u64)> {
        let gap = |class: &Class| {
            let of = |name: &str| class.numbers.get(name).copied().unwrap_or(0);
            let taken = of("curslabs").saturating_mul(of("slab_size"));
            let used = of("curregs").saturating_mul(class.size);
            (taken > used).then(|| (taken - used, class.size, used.saturating_mul(100) / taken))
        };
        let mut gaps: Vec<_> = self.bins().iter().filter_map(gap).collect();
        gaps.sort_unstable();
        gaps
    }

    /// A lock of all arenas together.
    pub fn mutex(&self, name: &str) -> Numbers {
        let mut sum = Numbers::new();
        let all = self.arenas.iter().filter_map(|arena| arena.mutexes.get(name));
        all.for_each(|own| add(&mut sum, own));
        sum
    }

    /// Everything that only grows, by name: what a rate can be told of. Locks have a point in their names.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        let mut count = |name: String, number: u64| {
            let own = all.entry(name).or_default();
            *own = own.saturating_add(number);
        };
        for arena in &self.arenas {
            for (name, number) in arena.numbers.iter().filter(|(name, _)| COUNTED.contains(name)) {
                count((*name).to_owned(), *number);
            }
            for class in arena.bins.iter().chain(&arena.lextents) {
                for (name, number) in
                    class.numbers.iter().filter(|(name, _)| COUNTED.contains(name))
                {
                    count((*name).to_owned(), *number);
                }
                for name in GROWING {
                    count(format!("bins.{name}"), class.mutex.get(name).copied().unwrap_or(0));
                }
            }
            for (lock, numbers) in &arena.mutexes {
                for name in GROWING {
                    count(format!("{lock}.{name}"), numbers.get(name).copied().unwrap_or(0));
                }
            }
        }
        for (name, number) in self.stats.iter().filter(|(name, _)| COUNTED.contains(name)) {
            count((*name).to_owned(), *number);
        }
        all.retain(|_, number| *number > 0);
        all
    }
}

/// Numbers that only grow.
const COUNTED: [&str; 28] = [
    "nmalloc",
    "ndalloc",
    "nrequests",
    "nfills",
    "nflushes",
    "nslabs",
    "nreslabs",
    "dirty_npurge",
    "dirty_nmadvise",
    "dirty_purged",
    "muzzy_npurge",
    "muzzy_nmadvise",
    "muzzy_purged",
    "scavenge_count",
    "commit_count",
    "total_commit_bytes",
    "decommit_count",
    "total_decommit_bytes",
    "reserve_count",
    "total_reserve_bytes",
    "TotalAlloc",
    "Mallocs",
    "Frees",
    "NumGC",
    "PauseTotalNs",
    "cpu.GCTotalTime",
    "cpu.GCIdleTime",
    "cpu.TotalTime",
];
/// The same of locks.
const GROWING: [&str; 3] = ["num_ops", "num_wait", "total_wait_time"];

/// What is the same of a class in every arena.
const SAME: [&str; 3] = ["nregs", "slab_size", "nshards"];

/// Adds numbers of the same names; the largest, where a sum has no meaning.
pub fn add(sum: &mut Numbers, more: &Numbers) {
    for (name, number) in more {
        let own = sum.entry(name).or_default();
        *own = match name.starts_with("max_") || SAME.contains(name) {
            true => (*own).max(*number),
            false => own.saturating_add(*number),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_all_arenas_are_summed_and_the_longest_wait_is_the_longest() {
        let class = |curregs, max_wait_time| Class {
            size: 16,
            numbers: Numbers::from([("curregs", curregs)]),
            mutex: Numbers::from([("max_wait_time", max_wait_time), ("num_ops", 5)]),
        };
        let arena = |one| Arena { bins: vec![one], ..Arena::default() };
        let statistics = Statistics {
            arenas: vec![arena(class(3, 7)), arena(class(4, 6))],
            ..Statistics::default()
        };
        let bins = statistics.bins();
        assert_eq!((bins[0].numbers["curregs"], bins[0].mutex["max_wait_time"]), (7, 7));
        assert_eq!(statistics.counted()["bins.num_ops"], 10);
    }
}
