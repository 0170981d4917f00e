//! What the runtime counts of its memory, its collections and its goroutines, under the names of
//! `runtime.MemStats`, read while the program runs.
//!
//! Nothing is stopped: each number is a word that the runtime writes whole. Sums are read until two readings are
//! equal; what of them an allocation can change without a collection is as of the last time that it was flushed.

mod fields;
mod goal;
mod goroutines;
mod words;

use heapattach_census::{
    Moment,
    counters::{AllocatorKind, Statistics, Value},
};

pub(crate) use fields::FigureFields;
pub use words::Problem;

use crate::{
    find::{Functions, Release},
    graph::layout::{GoroutineFields, Layout},
};
use goroutines::Counts;
use words::Words;

/// How often sums are read until two readings are equal.
const READINGS: usize = 8;
/// What stands for no limit of memory.
const NO_LIMIT: i64 = i64::MAX;

/// Where the figures of a program are.
#[derive(Debug)]
pub struct Figures {
    release: Release,
    module: String,
    fields: FigureFields,
    goroutine: GoroutineFields,
    functions: Functions,
    places: Places,
}

/// Where the runtime's variables are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Places {
    pub controller: u64,
    pub memstats: u64,
    pub mheap: u64,
    pub allgs: u64,
    pub work: Option<u64>,
    pub gomaxprocs: Option<u64>,
    pub profile_rate: Option<u64>,
}

impl Figures {
    pub(crate) fn new(
        release: Release,
        module: String,
        fields: FigureFields,
        layout: Layout,
        functions: Functions,
        places: Places,
    ) -> Self {
        Self { release, module, fields, goroutine: layout.goroutine, functions, places }
    }

    /// What is counted now; `None` if the program is gone.
    pub fn read(&self, moment: &Moment<'_>) -> Option<Statistics> {
        let mut words = Words::read(moment, &self.fields, &self.places)?;
        let mut is_still = words.check().is_ok();
        for _ in 0..READINGS {
            let again = Words::read(moment, &self.fields, &self.places)?;
            // A thread can stand between two sums that it changes, for as long as it has no processor.
            is_still = again == words && again.check().is_ok();
            words = again;
            if is_still {
                break;
            }
        }
        let mut statistics = Statistics {
            allocator: AllocatorKind::Go,
            version: self.release.text.clone(),
            module: self.module.clone(),
            ..Statistics::default()
        };
        // What contradicts itself by more than a thread can have under way is read with a wrong layout.
        // Nothing of it is told.
        if let Err(problem) = words.check()
            && problem.is_far()
        {
            statistics.unknown.push(problem.to_string());
            return Some(statistics);
        }
        self.settings(moment, &words, &mut statistics);
        statistics.stats = words.numbers();
        statistics.stats.insert("NextGC", goal::goal(&words, self.release.minor));
        let name = |code| self.functions.name(moment, code);
        match Counts::read(moment, &self.goroutine, self.places.allgs, &name) {
            Some(counts) => statistics.stats.extend(counts.numbers()),
            None => statistics.unknown.push("its goroutines: more than can be".to_owned()),
        }
        statistics.arenas.push(words.classes());
        if !is_still {
            statistics.unknown.push(
                "one instant: it allocated while this was read, sums can disagree".to_owned(),
            );
        }
        Some(statistics)
    }

    fn settings(&self, moment: &Moment<'_>, words: &Words, statistics: &mut Statistics) {
        let percent = match words.percent {
            ..0 => Value::Text("off".to_owned()),
            percent => Value::Number(i64::from(percent)),
        };
        let limit = match words.limit {
            NO_LIMIT => Value::Text("off".to_owned()),
            limit => Value::Number(limit),
        };
        let opt = &mut statistics.opt;
        opt.insert("GOGC".to_owned(), percent);
        opt.insert("GOMEMLIMIT".to_owned(), limit);
        let mut number = |name: &str, at: Option<u64>, mask: u64| {
            let word = at.and_then(|at| moment.word(at & !7).map(|word| word >> ((at & 7) * 8)));
            if let Some(number) = word.and_then(|word| i64::try_from(word & mask).ok()) {
                opt.insert(name.to_owned(), Value::Number(number));
            }
        };
        number("GOMAXPROCS", self.places.gomaxprocs, u64::from(u32::MAX));
        number("MemProfileRate", self.places.profile_rate, u64::MAX);
    }
}
