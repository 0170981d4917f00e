//! What is shown, as JSON.

use heapattach_ledger::{Thread, blind_spots};
use heapattach_profile::Range;
use heapattach_verdict::{current::Current, place::Place};
use serde::Serialize;

use crate::{model::Model, processes::Processes, snapshot::State};

#[derive(Serialize)]
struct Document<'a> {
    /// Its last part is raised whenever a field changes its meaning or goes away.
    schema: &'static str,
    pid: i32,
    name: &'a str,
    /// `waiting`, `live`, `away` or `over`.
    state: &'static str,
    /// Why, where that is known.
    #[serde(skip_serializing_if = "str::is_empty")]
    why: &'a str,
    every: u64,
    #[serde(flatten)]
    current: Current,
    /// The time that growth of sites is told of.
    #[serde(skip_serializing_if = "Option::is_none")]
    sites_over_ms: Option<u64>,
    sites: Vec<Site<'a>>,
    /// Sites that are not listed.
    more: usize,
    /// What was dropped, in words.
    lost: Vec<String>,
}

#[derive(Serialize)]
struct Site<'a> {
    words: &'a str,
    #[serde(flatten)]
    place: &'a Place,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<&'a Thread>,
    live: Range,
    live_blocks: Range,
    allocated: Range,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_per_minute: Option<Range>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_per_second: Option<Range>,
}

#[derive(Serialize)]
struct List<'a> {
    schema: &'static str,
    processes: Vec<Process<'a>>,
    /// Processes that are not listed.
    more: usize,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    command: &'a str,
    anonymous: u64,
    resident: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth_per_minute: Option<f64>,
}

/// The process that is shown, with so many of its sites, on one line.
pub fn top_document(model: &Model, rows: usize) -> String {
    let Some(watched) = model.watched() else { return String::new() };
    let ledger = watched.snapshot.as_ref().map(|snapshot| &snapshot.ledger);
    let (state, why) = match &watched.state {
        State::Waiting => ("waiting", ""),
        State::Live => ("live", ""),
        State::Away(why) => ("away", why.as_str()),
        State::Over(why) => ("over", why.as_str()),
    };
    let sites = model.listed().iter().take(rows).map(|at| {
        let row = &watched.rows[*at];
        let course = watched.course(row);
        Site {
            words: &row.words,
            place: &row.key.place,
            thread: row.key.thread.as_ref(),
            live: row.live().into(),
            live_blocks: row.blocks().into(),
            allocated: row.allocated().into(),
            growth_per_minute: course.growth.map(Range::from),
            allocated_per_second: course.rate.map(Range::from),
        }
    });
    let document = Document {
        schema: "heapattach/top/1",
        pid: watched.subject.pid,
        name: &watched.subject.name,
        state,
        why,
        every: ledger.map_or(0, |ledger| ledger.about.every),
        current: watched.current,
        sites_over_ms: watched.since_ms.map(|since| watched.current.at_ms.saturating_sub(since)),
        sites: sites.collect(),
        more: model.listed().len().saturating_sub(rows),
        lost: ledger.map_or(Vec::new(), |ledger| blind_spots::lost(&ledger.about.loss)),
    };
    serde_json::to_string(&document).unwrap_or_default()
}

/// The processes that could be looked at, on one line.
pub fn processes_document(processes: &Processes, rows: usize) -> String {
    let shown = processes.shown().take(rows).map(|(one, growth_per_minute)| Process {
        pid: one.pid,
        command: &one.command,
        anonymous: one.anonymous,
        resident: one.resident,
        growth_per_minute,
    });
    let more = processes.count().saturating_sub(rows);
    let list = List { schema: "heapattach/top-processes/1", processes: shown.collect(), more };
    serde_json::to_string(&list).unwrap_or_default()
}
