//! From a session to its report: counts by hook and caller become rows by function and module.

use std::{collections::BTreeMap, time::Duration};

use heapattach_abi::{
    kind::HookKind,
    row::{self, Count},
};
use heapattach_entry::Family;
use heapattach_injector::{
    attach::{Unseen, Way, unseen},
    detach::Detached,
    watch::{ActiveHook, Counts, Exposure, Session, StopReason, StopRecord},
};
use heapattach_process::{addr::RemoteAddr, linker::Link, proc::Process};

use crate::watch::intake::{Caller, Recorder};
use heapattach_report::{
    CallerReport, ChildReport, FunctionReport, HookedBy, MemoryReport, NotHooked, Report,
    StopReport, StoppedFor, TargetState,
};
use heapattach_text::error_chain::with_causes;

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
    let planned: Vec<_> = session.patches.hooks.iter().map(|hook| &hook.planned).collect();
    for Unseen { hook, why } in unseen(&planned) {
        // What is not hooked at all is named already.
        if hook.is_hooked() {
            let (function, module) = (hook.name().to_owned(), module_name(process, &hook.definer));
            report.not_hooked.push(NotHooked { function, module, why });
        }
    }
    report.functions.sort_by_key(|f| std::cmp::Reverse(f.calls));
    report.stops = stops(session);
    report.waited = counts.waited;
    add_window(&mut report, session.exposed);
    let home = &session.patches.home;
    let region = home.header().region;
    report.memory = MemoryReport {
        reserved: home.header().length,
        used: home.used() + session.stream.memory().unwrap_or(region),
    };
    report
}

/// Adds when a SIGKILL of the tracing process would have crashed the target.
pub fn add_window(report: &mut Report, exposed: Exposure) {
    report.window_us += exposed.time.as_secs_f64() * 1e6;
    report.window_times += exposed.times;
    if let Some(why) = exposed.why {
        report.window_why = Some(why.to_string());
    }
}

/// Blocks that were allocated, and their bytes, as the hooks counted them. No less than there were:
/// of functions that do more than that every call counts.
pub fn asked(session: &Session<'_>, counts: &Counts) -> [u64; 2] {
    let hooks = session.patches.hooks.iter().filter(|hook| {
        let function = hook.planned.function();
        function.family == Family::Heap && function.kind != HookKind::Free
    });
    let counts = hooks.filter_map(|hook| counts.hooks.get(hook.number?));
    counts.fold([0; 2], |[calls, bytes], count| {
        [calls.saturating_add(count.calls), bytes.saturating_add(count.bytes)]
    })
}

/// How often the target was stopped.
pub fn stops(session: &Session<'_>) -> Vec<StopReport> {
    let stop = |stop: &StopRecord| StopReport {
        why: match stop.reason {
            StopReason::Attach => StoppedFor::Attach,
            StopReason::Module => StoppedFor::Module,
            StopReason::Detach => StoppedFor::Detach,
        },
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
        Way::Entry(_) => (HookedBy::Entry, None),
        Way::Slots { why } => (HookedBy::Slots, (!why.is_empty()).then(|| why.clone())),
        Way::Within { .. } | Way::Not { .. } => (HookedBy::Not, None),
    };
    let aliases = hook.planned.names.iter().skip(1).map(|function| function.name.clone());
    FunctionReport {
        function: hook.planned.name().to_owned(),
        aliases: aliases.collect(),
        module,
        via,
        why_slots,
        slots: hook.slots,
        calls,
        bytes,
        callers,
    }
}

/// What the counts do not show.
pub fn blind_spots(session: &Session<'_>, counts: &Counts) -> Vec<String> {
    let mut blind = Vec::new();
    blind.extend(counted_twice(session, counts));
    if session.sorted.pending > 0 {
        blind.push(format!(
            "{} slots of modules that were still being loaded",
            session.sorted.pending
        ));
    }
    for ((_, function), slots) in &session.sorted.foreign {
        let name = &function.name;
        blind.push(format!("{slots} slots for {name} contain something else and were left alone"));
    }
    blind.extend(session.missed.iter().cloned());
    if session.has_expired() {
        blind.push(
            "the hooks switched themselves off: heapattach was not scheduled for 15 s".to_owned(),
        );
    }
    blind
}

/// What is said where calls may be counted more than once.
pub fn counted_twice(session: &Session<'_>, counts: &Counts) -> Option<String> {
    let calls = session.counted_twice(counts);
    let say = || {
        format!(
            "an allocator calls another one, and {calls} calls came from threads beyond the first {}: \
             they count once for each",
            row::ROWS - 1
        )
    };
    (calls > 0).then(say)
}

/// Adds what detach did.
pub fn add_detach(report: &mut Report, detached: &Detached) {
    report.target = TargetState::Restored;
    match &detached.result {
        Ok(undone) => {
            report.stub_page = undone.stub_page.map(|at| at.to_string());
            let foreign = undone.foreign.iter();
            report.left.extend(
                foreign.map(|at| format!("{at} was changed by another tool and left alone")),
            );
        }
        Err(left) => {
            report.target = TargetState::Altered;
            report.left = left.what.clone();
            report.error = Some(with_causes(&left.error));
        }
    }
    for child in &detached.children {
        let left = child.result.as_ref().err().map(|left| left.what.clone()).unwrap_or_default();
        if !left.is_empty() {
            report.target = TargetState::Altered;
            report.left.push(format!("child {}: {}", child.pid, left.join("; ")));
        }
        report.children.push(ChildReport { pid: child.pid, left });
    }
}
