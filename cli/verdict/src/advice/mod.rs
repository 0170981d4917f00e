//! What could be set otherwise in an allocator, for this process as it is: one file a rule.
//!
//! A rule looks at the counters of one allocator and answers what it sees, why that is, what to type, what that
//! wins and what it costs. It names its source, and says nothing where nothing is wrong.

mod arenas_few;
mod arenas_many;
mod background;
mod cache_classes;
mod cache_room;
mod cache_small;
mod caches;
mod decay_waits;
mod dirty;
mod fragmentation;
mod glibc_arenas;
mod glibc_free;
mod go_free;
mod go_gaps;
mod go_limit;
mod go_stacks;
mod go_time;
mod hot_threads;
mod metadata;
mod mimalloc_free;
mod scene;
mod slabs;
mod tcmalloc_free;

#[cfg(test)]
mod sample;

use serde::Serialize;

pub use scene::{Conditions, Scene};

/// When a setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Takes {
    /// When the program is started again.
    Restart,
    /// A running program can set it, by its own call.
    Call,
}

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The name of the rule.
    pub rule: &'static str,
    /// What was measured.
    pub observation: String,
    /// Why that is so.
    pub cause: String,
    /// What to type; empty if no setting helps.
    pub setting: String,
    /// What `heapattach allocator --apply` has for it in a process that runs; empty if nothing.
    pub live: Vec<&'static str>,
    /// What it wins.
    pub gain: String,
    /// What it costs.
    pub cost: String,
    /// When it takes effect.
    pub takes: Takes,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// A rule.
type Rule = fn(&Scene<'_>) -> Option<Advice>;

/// All of them, in the order in which their advice is told.
const RULES: [Rule; 21] = [
    arenas_few::advise,
    hot_threads::advise,
    cache_small::advise,
    decay_waits::advise,
    fragmentation::advise,
    dirty::advise,
    background::advise,
    arenas_many::advise,
    caches::advise,
    metadata::advise,
    slabs::advise,
    cache_classes::advise,
    glibc_free::advise,
    glibc_arenas::advise,
    tcmalloc_free::advise,
    mimalloc_free::advise,
    go_limit::advise,
    go_time::advise,
    go_stacks::advise,
    go_gaps::advise,
    go_free::advise,
];

/// What could be set otherwise.
pub fn advise(scene: &Scene<'_>) -> Vec<Advice> {
    RULES.iter().filter_map(|rule| rule(scene)).collect()
}

/// Less than this is not worth a change.
const LEAST: u64 = 10 << 20;

#[cfg(test)]
mod tests {
    use super::{sample::Sample, *};

    #[test]
    fn nothing_is_advised_where_nothing_is_wrong() {
        for sample in [
            Sample::jemalloc(),
            Sample::glibc(),
            Sample::tcmalloc(),
            Sample::mimalloc(),
            Sample::go(),
        ] {
            let told = advise(&sample.scene());
            assert!(told.is_empty(), "{told:#?}");
        }
    }
}
