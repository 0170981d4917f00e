//! What an agent tells Prometheus of itself.

use std::collections::BTreeMap;

use heapattach_agent::{Config, State};
use heapattach_serve::Figure;

use super::{counted::Counted, tidy::Spooled};

/// What happened since it began.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Sessions that were begun,
    pub attaches: u64,
    /// and that ended.
    pub detaches: u64,
    /// Targets that were detached from, by the limit.
    pub excesses: BTreeMap<&'static str, u64>,
    /// Looks that were made, by kind,
    pub looks: BTreeMap<&'static str, u64>,
    /// and those without a result.
    pub failed_looks: BTreeMap<&'static str, u64>,
    /// Files that were put into the spool,
    pub written: u64,
    /// and that went to make room, or by age.
    pub removed: u64,
}

/// What is spent of the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Of all processors, over the last minutes.
    pub processors_percent: f64,
    /// Of all processes of ours.
    pub memory: u64,
    /// Of the target that was stopped for longest.
    pub stopped_ms: f64,
}

/// An agent as it is now.
#[derive(Debug)]
pub struct Now<'a> {
    /// Its file.
    pub config: &'a Config,
    /// What is barred.
    pub state: &'a State,
    /// The rules of its sessions.
    pub sessions: Vec<&'a str>,
    /// Processes that a rule fits and that are not watched, by the reason.
    pub refused: &'a BTreeMap<&'static str, u64>,
    /// What happened.
    pub counts: &'a Counts,
    /// What is spent.
    pub used: Used,
    /// What is in the spool.
    pub spooled: Spooled,
    /// Looks that are due, by kind.
    pub due: &'a BTreeMap<&'static str, u64>,
    /// What allocators counted when they were looked at last.
    pub counted: Vec<&'a Counted>,
}

type Row = (Vec<(&'static str, String)>, f64);

/// All of them.
pub fn all(now: &Now<'_>) -> Vec<Figure> {
    let Now { config, counts, used, spooled, .. } = now;
    let limit = &config.budget;
    let budget = |processors: f64, memory: u64, stopped: f64| {
        vec![
            row("limit", "processors-percent", processors),
            row("limit", "memory", whole(memory)),
            row("limit", "stopped-ms-per-hour", stopped),
        ]
    };
    let of_rules = |number: &dyn Fn(&str) -> usize| {
        let rules = config.rules.iter();
        rules.map(|rule| row("rule", &rule.name, whole(number(&rule.name) as u64))).collect()
    };
    let sessions = |name: &str| now.sessions.iter().filter(|rule| **rule == name).count();
    let barred = |name: &str| now.state.barred.iter().filter(|one| one.rule == name).count();
    let by_name = |of: &BTreeMap<&'static str, u64>, label: &'static str| {
        of.iter().map(|(name, number)| row(label, name, whole(*number))).collect()
    };
    vec![
        gauge("heapattach_agent_sessions", "Processes that are watched", of_rules(&sessions)),
        gauge(
            "heapattach_agent_barred",
            "Programs that ended soon after an attach and are left alone until --allow",
            of_rules(&barred),
        ),
        gauge(
            "heapattach_agent_refused",
            "Processes that a rule fits and that are not watched, by the reason",
            by_name(now.refused, "reason"),
        ),
        gauge(
            "heapattach_agent_budget_used",
            "What is spent of each limit, in its unit: memory in bytes, stops of the target that had most",
            budget(used.processors_percent, used.memory, used.stopped_ms),
        ),
        gauge(
            "heapattach_agent_budget_limit",
            "What may be spent",
            budget(limit.processors_percent, limit.memory, limit.stopped_ms_per_hour),
        ),
        counter(
            "heapattach_agent_budget_exceeded",
            "Targets that were detached from since a limit was exceeded",
            by_name(&counts.excesses, "limit"),
        ),
        counter("heapattach_agent_attaches", "Sessions that were begun", one(counts.attaches)),
        counter("heapattach_agent_detaches", "Sessions that ended", one(counts.detaches)),
        counter(
            "heapattach_agent_looks",
            "Looks at processes that were made on a schedule",
            by_name(&counts.looks, "look"),
        ),
        counter(
            "heapattach_agent_looks_failed",
            "Such looks without a result",
            by_name(&counts.failed_looks, "look"),
        ),
        gauge("heapattach_agent_looks_due", "Looks that are due", by_name(now.due, "look")),
        gauge(
            "heapattach_allocator",
            "What an allocator counted when it was looked at last, by the name that it has for that",
            now.counted.iter().flat_map(|one| one.rows()).collect(),
        ),
        counter("heapattach_agent_spool_written", "Files put into the spool", one(counts.written)),
        counter(
            "heapattach_agent_spool_removed",
            "Files removed from it: room, age",
            one(counts.removed),
        ),
        gauge("heapattach_agent_spool_files", "Files in the spool", one(spooled.files)),
        gauge("heapattach_agent_spool_bytes", "Their bytes", one(spooled.bytes)),
    ]
}

fn row(label: &'static str, of: &str, value: f64) -> Row {
    (vec![(label, of.to_owned())], value)
}

fn one(value: u64) -> Vec<Row> {
    vec![(Vec::new(), whole(value))]
}

fn gauge(name: &'static str, about: &'static str, rows: Vec<Row>) -> Figure {
    Figure { name, about, is_counter: false, rows }
}

fn counter(name: &'static str, about: &'static str, rows: Vec<Row>) -> Figure {
    Figure { is_counter: true, ..gauge(name, about, rows) }
}

#[allow(clippy::cast_precision_loss)]
fn whole(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_and_limit_has_its_figure() {
        let text =
            "version = 1\n[[rule]]\nname = 'a'\nuser = 'x'\n[[rule]]\nname = 'b'\nuser = 'y'\n";
        let (config, counts) = (Config::parse(text).unwrap(), Counts::default());
        let refused = BTreeMap::from([("young", 3)]);
        let now = Now {
            config: &config,
            state: &State::default(),
            sessions: vec!["b", "b"],
            refused: &refused,
            counts: &counts,
            used: Used { memory: 7, ..Used::default() },
            spooled: Spooled { files: 2, bytes: 9 },
            due: &BTreeMap::from([("census", 1)]),
            counted: Vec::new(),
        };
        let all = all(&now);
        let rows = |name: &str| &all.iter().find(|figure| figure.name == name).unwrap().rows;
        let of = |label, value: &str, number| (vec![(label, value.to_owned())], number);
        assert_eq!(
            rows("heapattach_agent_sessions"),
            &[of("rule", "a", 0.0), of("rule", "b", 2.0)]
        );
        assert_eq!(rows("heapattach_agent_refused"), &[of("reason", "young", 3.0)]);
        assert_eq!(rows("heapattach_agent_budget_used")[1], of("limit", "memory", 7.0));
        assert_eq!(rows("heapattach_agent_budget_limit").len(), 3);
        assert_eq!(rows("heapattach_agent_spool_bytes"), &[(Vec::new(), 9.0)]);
    }
}
