//! The command's JSON report, as a user's script would read it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use serde::Deserialize;

/// Schema this reader knows.
pub const SCHEMA: &str = "heapattach/report/1";

/// The whole report of one attach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The process looked at.
    pub pid: i32,
    /// Its name.
    pub command: String,
    /// `detached`, `exited` or `refused`.
    pub outcome: String,
    /// Why it ended, if not as asked.
    pub why: Option<String>,
    /// What was waited for, and came.
    pub trigger: Option<serde_json::Value>,
    /// `untouched`, `restored` or `altered`.
    pub target: String,
    /// What was hooked, and what was counted.
    pub functions: Vec<Function>,
    /// What the heap holds, and what allocated it.
    pub heap: Heap,
    /// How stacks were followed.
    pub stacks: Stacks,
    /// What the counts do not show.
    pub blind: Vec<String>,
    /// What was not hooked, and why.
    pub not_hooked: Vec<NotHooked>,
    /// Every time the target was stopped.
    pub stops: Vec<Stop>,
    /// What could not be restored.
    pub left: Vec<serde_json::Value>,
    /// How long the target's registers were not its own.
    pub window_us: f64,
    /// And how often.
    #[serde(default)]
    pub window_times: u32,
    /// Why there was one.
    pub window_why: Option<String>,
    /// What heapattach itself took.
    pub expense: Expense,
    /// Who forked it.
    pub parent: i32,
    /// The other programs and processes of the session.
    pub processes: Vec<Report>,
    /// Processes that were only counted.
    pub not_looked_at: Option<NotLookedAt>,
    /// How the target ended (`run` only).
    pub exit: Option<Exit>,
    /// Why the command refused.
    pub error: Option<String>,
}

/// Memory and processor time of heapattach's own processes.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Expense {
    /// Bytes.
    pub memory: u64,
    /// Microseconds.
    pub cpu_us: u64,
}

/// A number with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Range {
    /// The number.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Bytes and blocks.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Amount {
    /// Bytes requested.
    pub bytes: Range,
    /// Blocks.
    pub blocks: Range,
}

/// The heap since the attach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Heap {
    /// Mean bytes between samples; 1: everything is recorded.
    pub every: u64,
    /// Allocated.
    pub allocated: Amount,
    /// Of those, freed.
    pub freed: Amount,
    /// Of those, in use at the end.
    pub live: Amount,
    /// Bytes of pages that were mapped.
    pub mapped: u64,
    /// Of those, still mapped.
    pub mapped_live: u64,
    /// What is missing, by its kind.
    pub lost: BTreeMap<String, u64>,
    /// The places that allocated, those that hold most first.
    pub sites: Vec<Site>,
    /// Sites that are not listed.
    pub more_sites: u64,
}

/// How stacks were followed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stacks {
    /// Allocations recorded, by why their stack ends.
    pub ends: BTreeMap<String, u64>,
}

/// One place that allocates memory.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Site {
    /// The caller, in words.
    pub place: String,
    /// What it holds.
    pub live: Amount,
    /// What it allocated.
    pub allocated: Amount,
    /// Bytes of pages it mapped.
    pub mapped: u64,
    /// Of those, still mapped.
    pub mapped_live: u64,
    /// The calls that led to it, innermost first.
    pub frames: Vec<Frame>,
}

/// One frame.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The function, if it is known.
    pub function: String,
    /// The source file, if it is known.
    pub file: String,
    /// The line in it.
    pub line: u64,
    /// It was inlined into the next.
    pub inlined: bool,
}

/// One hooked function.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Function {
    /// Its name.
    pub function: String,
    /// The module that defines it.
    pub module: String,
    /// `entry` or `slots`.
    pub via: String,
    /// How many slots lead to the hook.
    pub slots: u64,
    /// Calls counted.
    pub calls: u64,
    /// Bytes requested.
    pub bytes: u64,
    /// The same, by calling module.
    pub callers: Vec<Caller>,
}

/// The calls one module made.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Caller {
    /// The calling module.
    pub module: String,
    /// Calls counted.
    pub calls: u64,
    /// Bytes requested.
    pub bytes: u64,
}

/// A function left alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NotHooked {
    /// Its name.
    pub function: String,
    /// The module that defines it.
    pub module: String,
    /// The reason.
    pub why: String,
}

/// Processes that were not looked at.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NotLookedAt {
    /// How many.
    pub count: Option<u64>,
    /// Why, and what to type.
    pub why: String,
}

/// One stop of all threads.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Stop {
    /// `attach`, `detach`, ...
    pub why: String,
    /// Threads stopped.
    pub threads: u64,
    /// From the first thread's stop to the last one's start.
    pub stopped_us: f64,
}

/// How a target ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Exit {
    /// Its status.
    pub code: Option<i32>,
    /// Or the signal that ended it.
    pub signal: Option<i32>,
}

/// Where a report can be written to; no other test uses that path.
pub fn fresh_file() -> PathBuf {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("heapattach-report-of-{}-{serial}", std::process::id()))
}

impl Report {
    /// All of the session, the one that the report is about last.
    pub fn family(&self) -> Vec<&Self> {
        self.processes.iter().chain([self]).collect()
    }

    /// Calls counted in all.
    pub fn calls(&self) -> u64 {
        self.functions.iter().map(|f| f.calls).sum()
    }

    /// Calls of one function, over all modules that define it.
    pub fn calls_of(&self, name: &str) -> u64 {
        self.named(name).map(|f| f.calls).sum()
    }

    /// Bytes asked of one function.
    pub fn bytes_of(&self, name: &str) -> u64 {
        self.named(name).map(|f| f.bytes).sum()
    }

    /// Calls of one function made from modules whose path ends in `module`.
    pub fn calls_from(&self, name: &str, module: &str) -> u64 {
        let callers = self.named(name).flat_map(|f| &f.callers);
        callers.filter(|c| c.module.ends_with(module)).map(|c| c.calls).sum()
    }

    /// The bytes that those calls requested.
    pub fn bytes_from(&self, name: &str, module: &str) -> u64 {
        let callers = self.named(name).flat_map(|f| &f.callers);
        callers.filter(|c| c.module.ends_with(module)).map(|c| c.bytes).sum()
    }

    /// How long the stops for `why` took, each.
    pub fn stopped_us(&self, why: &str) -> Vec<f64> {
        self.stops.iter().filter(|s| s.why == why).map(|s| s.stopped_us).collect()
    }

    /// Whether nothing is missing from what was recorded.
    pub fn is_complete(&self) -> bool {
        !self.heap.lost.is_empty() && self.heap.lost.values().all(|&number| number == 0)
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Function> {
        self.functions.iter().filter(move |f| f.function == name)
    }
}

impl Site {
    /// Whether the code that made the call belongs to the function of this name: its own, or
    /// inlined into it. Arguments and paths do not matter.
    pub fn is_in(&self, name: &str) -> bool {
        let end = self.frames.iter().position(|frame| !frame.inlined);
        let own = &self.frames[..end.map_or(self.frames.len(), |end| end + 1)];
        own.iter().any(|frame| {
            let tail = frame.function.rsplit_once("::").map_or("", |(_, tail)| tail);
            let anonymous = frame.function.trim_start_matches("(anonymous namespace)::");
            let bare = anonymous.split('(').next().unwrap_or_default();
            [&frame.function, tail, bare].contains(&name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_a_function_over_modules_and_callers() {
        let text = r#"{"functions":[
            {"function":"free","module":"/a","calls":2,"callers":[{"module":"/x","calls":2}]},
            {"function":"free","module":"/b","calls":3,"bytes":5,
             "callers":[{"module":"/lib/x","calls":1},{"module":"/y","calls":2}]}]}"#;
        let report: Report = serde_json::from_str(text).unwrap();
        assert_eq!((report.calls(), report.calls_of("free")), (5, 5));
        assert_eq!((report.bytes_of("free"), report.calls_from("free", "/x")), (5, 3));
    }

    #[test]
    fn a_site_is_in_the_function_its_call_was_inlined_into_and_in_none_further_up() {
        let site: Site = serde_json::from_str(
            r#"{"frames":[{"function":"alloc::alloc::alloc","inlined":true},
                {"function":"truth::site_vector"},{"function":"main(int, char**)"}]}"#,
        )
        .unwrap();
        assert!(["alloc", "site_vector", "truth::site_vector"].iter().all(|name| site.is_in(name)));
        assert!(!site.is_in("main"));
    }
}
