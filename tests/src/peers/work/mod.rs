//! Programs that do the same work again and again, so often as they are told.

mod benchmark;
mod churn;
mod compile;
mod containers;
mod keys;
mod nginx;
mod python;
mod redis;
mod sqlite;
mod stepped;

use std::fmt::Debug;

use super::dress::Dress;
pub(super) use stepped::built;

/// A kind of work.
pub(super) trait Work: Debug {
    /// What it is called in tables.
    fn name(&self) -> String;

    /// Operations of one measurement of a plain program: some tenths of a second.
    fn operations(&self) -> u64;

    /// Whether Python does it.
    fn is_python(&self) -> bool {
        false
    }

    /// Whether it is measured under tools that make a program many times slower, too.
    fn bears_slow_tools(&self) -> bool {
        false
    }

    /// Whether its memory comes from an allocator of its own; then what wraps the C library's is not for
    /// it.
    fn has_own_allocator(&self) -> bool {
        false
    }

    /// Of so many rounds those that are worth their time.
    fn rounds(&self, wanted: u32) -> u32 {
        wanted
    }

    /// Whether one measurement is so long that none before it is needed to warm up.
    fn is_long(&self) -> bool {
        false
    }

    /// Whether each call of [`Subject::work`] is a process of its own.
    fn ends_each_time(&self) -> bool {
        false
    }

    /// Starts a program that does it.
    fn start(&self, dress: &Dress) -> Result<Box<dyn Subject>, String>;
}

/// A running program.
pub(super) trait Subject {
    /// The process that does the work.
    fn pid(&mut self) -> Result<i32, String>;

    /// Does so many operations.
    fn work(&mut self, operations: u64) -> Result<Turn, String>;
}

/// What one measurement told.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Processor time of the program for one operation, in ns.
    pub(super) cpu_ns: f64,
    /// Operations a second.
    pub(super) rate: Option<f64>,
    /// Half of the answers took longer, in us.
    pub(super) p50_us: Option<f64>,
    /// One in a hundred answers took longer.
    pub(super) p99_us: Option<f64>,
}

/// All kinds.
pub(super) fn all(is_quick: bool) -> Vec<Box<dyn Work>> {
    if is_quick {
        return vec![Box::new(churn::Churn::new(1, 10, 10_000)), Box::new(sqlite::Sqlite)];
    }
    let mut all: Vec<Box<dyn Work>> = Vec::new();
    for (threads, depth) in [(1, 10), (1, 20), (1, 60), (2, 20), (8, 20)] {
        all.push(Box::new(churn::Churn::new(threads, depth, 100_000)));
    }
    all.push(Box::new(containers::Containers));
    all.push(Box::new(sqlite::Sqlite));
    all.push(Box::new(python::Python));
    all.push(Box::new(compile::Compile));
    all.push(Box::new(redis::Redis { pipeline: 1 }));
    all.push(Box::new(redis::Redis { pipeline: 16 }));
    all.push(Box::new(keys::Keys::mini_redis()));
    all.push(Box::new(keys::Keys::rust_server()));
    all.push(Box::new(nginx::Nginx));
    all
}

/// Two threads that do nothing but call malloc and free, from stacks as programs have them and from few
/// frames.
pub(super) fn busy_loops() -> Vec<Box<dyn Work>> {
    [3, 20].map(|depth| Box::new(churn::Churn::new(2, depth, 1000)) as Box<dyn Work>).into()
}

/// Python.
pub(super) fn python() -> Box<dyn Work> {
    Box::new(python::Python)
}

/// A loop of pairs, from stacks as programs have them.
pub(super) fn loop_of(threads: u32, live: u64) -> Box<dyn Work> {
    Box::new(churn::Churn::new(threads, 20, live))
}
