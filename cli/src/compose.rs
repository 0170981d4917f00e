//! From a session to its report: counts by hook and caller become rows by function and module.

use std::{collections::BTreeMap, time::Duration};

use heapattach_abi::row::Count;
use heapattach_injector::{
    addr::RemoteAddr,
    counts::Counts,
    linker::Link,
    patch::ActiveHook,
    plan::Way,
    proc::Process,
    session::{Detached, Session, StopReason, StopRecord},
};

use crate::{
    recorder::{Caller, Recorder},
    report::{
        CallerReport, ChildReport, FunctionReport, MemoryReport, NotHooked, Report, StopReport,
    },
};

/// What a person would call the module.
pub fn module_name(process: &Process, link: &Link) -> String {
    if !link.name.is_empty() {
        return String::from_utf8_lossy(&link.name).escape_debug().to_string();
    }
    let exe = std::fs::read_link(format!("/proc/{}/exe", process.pid()));
    exe.map_or_else(
        |_| "[executable]".to_owned(),
        |path| path.to_string_lossy().escape_debug().to_string(),
    )
}

/// Everything but how it ended.
pub fn compose(
    session: &Session<'_>,
    counts: &Counts,
    recorder: &Recorder,
    counted: Duration,
) -> Report {
    let process = &session.target().process;
    let mut report = Report::new(process.pid(), String::new());
    report.counted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
    for hook in &session.patches.hooks {
        let module = module_name(process, &hook.planned.definer);
        let function = hook.planned.name().to_owned();
        match (&hook.planned.way, hook.number) {
            (Way::Not { why }, _) => {
                report.not_hooked.push(NotHooked { function, module, why: why.clone() });
            }
            (_, Some(number)) => {
                let row = function_row(session, hook, module, number, counts, recorder);
                report.functions.push(row);
            }
            // Another one's calls are its own.
            (Way::Within { .. }, _) | (_, None) => {}
        }
    }
    report.functions.sort_by_key(|f| std::cmp::Reverse(f.calls));
    report.stops = stops(session);
    report.window_us = session.exposed.as_secs_f64() * 1e6;
    let home = &session.patches.home;
    let region = home.header().region;
    report.memory = MemoryReport {
        reserved: home.header().length,
        used: home.used() + session.stream.memory().unwrap_or(region),
    };
    report
}

/// How often the target was stopped.
pub fn stops(session: &Session<'_>) -> Vec<StopReport> {
    let stop = |stop: &StopRecord| StopReport {
        why: match stop.reason {
            StopReason::Attach => "attach",
            StopReason::Module => "module",
            StopReason::Detach => "detach",
        }
        .to_owned(),
        threads: stop.cost.threads,
        stopped_us: stop.cost.stopped.as_secs_f64() * 1e6,
    };
    session.stops.iter().map(stop).collect()
}

fn function_row(
    session: &Session<'_>,
    hook: &ActiveHook,
    module: String,
    number: usize,
    counts: &Counts,
    recorder: &Recorder,
) -> FunctionReport {
    let mut callers: BTreeMap<&str, CallerReport> = BTreeMap::new();
    let Count { calls, bytes } = counts.hooks.get(number).copied().unwrap_or_default();
    for (stack, Caller { calls, bytes, .. }) in recorder.callers_of(number) {
        let caller = recorder.native_stack(stack).and_then(|stack| stack.frames.first());
        // The call is before the address it returns to.
        let name = caller.map_or("[other places]", |at| {
            session.places.name(RemoteAddr::new(at.get().saturating_sub(1)))
        });
        let row = callers.entry(name).or_default();
        row.calls = row.calls.saturating_add(calls);
        row.bytes = row.bytes.saturating_add(bytes);
    }
    let named =
        callers.into_iter().map(|(name, row)| CallerReport { module: name.to_owned(), ..row });
    let mut callers: Vec<CallerReport> = named.collect();
    callers.sort_by_key(|row| std::cmp::Reverse(row.calls));
    let (via, why_slots) = match &hook.planned.way {
        Way::Entry(_) => ("entry", None),
        Way::Slots { why } => ("slots", (!why.is_empty()).then(|| why.clone())),
        Way::Within { .. } | Way::Not { .. } => ("not", None),
    };
    let aliases = hook.planned.names.iter().skip(1).map(|function| function.name.clone());
    FunctionReport {
        function: hook.planned.name().to_owned(),
        aliases: aliases.collect(),
        module,
        via: via.to_owned(),
        why_slots,
        slots: hook.slots,
        calls,
        bytes,
        callers,
    }
}

/// What the counts do not show.
pub fn blind_spots(session: &Session<'_>) -> Vec<String> {
    let mut blind = Vec::new();
    if session.sorted.pending > 0 {
        blind.push(format!(
            "{} slots of modules that were still being loaded",
            session.sorted.pending
        ));
    }
    for ((_, function), slots) in &session.sorted.foreign {
        let name = &function.name;
        blind.push(format!("{slots} slots for {name} hold something else and were left alone"));
    }
    blind.extend(session.missed.iter().cloned());
    if session.has_expired() {
        blind.push(
            "the hooks switched themselves off: heapattach was not scheduled for 15 s".to_owned(),
        );
    }
    blind
}

/// Adds what detach did.
pub fn add_detach(report: &mut Report, detached: &Detached) {
    report.target = "restored".to_owned();
    match &detached.result {
        Ok(undone) => {
            report.stub_page = undone.stub_page.map(|at| at.to_string());
            let foreign = undone.foreign.iter();
            report.left.extend(
                foreign.map(|at| format!("{at} was changed by somebody else and left alone")),
            );
        }
        Err(left) => {
            report.target = "altered".to_owned();
            report.left = left.what.clone();
            report.error = Some(with_causes(&left.error));
        }
    }
    for child in &detached.children {
        let left = child.result.as_ref().err().map(|left| left.what.clone()).unwrap_or_default();
        if !left.is_empty() {
            report.target = "altered".to_owned();
            report.left.push(format!("child {}: {}", child.pid, left.join("; ")));
        }
        report.children.push(ChildReport { pid: child.pid, left });
    }
}

/// An error with everything that led to it.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
