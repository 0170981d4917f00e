//! The command's JSON report, as a user's script would read it.

use serde::Deserialize;

/// Schema this reader knows.
pub const SCHEMA: &str = "heapattach/door/1";

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
    /// `untouched`, `restored` or `altered`.
    pub target: String,
    /// What was hooked, and what was counted.
    pub functions: Vec<Function>,
    /// What was not hooked, and why.
    pub not_hooked: Vec<NotHooked>,
    /// Every time the target stood still.
    pub stops: Vec<Stop>,
    /// What could not be restored.
    pub left: Vec<serde_json::Value>,
    /// How long the target's registers were not its own.
    pub window_us: f64,
    /// How the target ended (`run` only).
    pub exit: Option<Exit>,
    /// Why the command refused.
    pub error: Option<String>,
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
    /// Bytes asked for.
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
    /// Bytes asked for.
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

impl Report {
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

    /// How long the stops for `why` took, each.
    pub fn stopped_us(&self, why: &str) -> Vec<f64> {
        self.stops.iter().filter(|s| s.why == why).map(|s| s.stopped_us).collect()
    }

    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Function> {
        self.functions.iter().filter(move |f| f.function == name)
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
}
