//! The other processes and programs of a session, a line each.

use crate::{
    quantity::{bytes, count},
    report::{ExitReport, Report},
    view::{Ink, Page},
};

/// So many are listed.
const LISTED: usize = 40;
/// Letters of a command that are shown.
const COMMAND: usize = 40;

/// Writes them, if there are any.
pub fn write(page: &mut Page, report: &Report) {
    if !report.processes.is_empty() {
        let all: Vec<&Report> = report.processes.iter().chain([report]).collect();
        let mut pids: Vec<i32> = all.iter().map(|report| report.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let calls = all.iter().flat_map(|report| &report.functions).map(|row| row.calls);
        let calls = calls.fold(0, u64::saturating_add);
        let live: f64 = all.iter().map(|report| report.heap.live.bytes.value).sum();
        let text = format!(
            "{} processes, {} programs looked at; {} calls, {} held in all; \
             above is what is said of process {} ({})",
            pids.len(),
            all.len(),
            count(calls),
            whole(live),
            report.pid,
            short(&report.command),
        );
        page.prose("FAMILY", Ink::Plain, &text);
        for other in report.processes.iter().take(LISTED) {
            page.prose("", Ink::Plain, &line(other));
        }
        let more = report.processes.len().saturating_sub(LISTED);
        if more > 0 {
            page.prose("", Ink::Dim, &format!("{more} more (--json)"));
        }
    }
    if let Some(not) = &report.not_looked_at {
        let count = not.count.map_or_else(|| "some".to_owned(), count);
        let text = format!("{count} processes were not looked at: {}", not.why);
        page.prose("", Ink::Warning, &text);
    }
}

fn line(report: &Report) -> String {
    let name = format!("{} {}", report.pid, short(&report.command));
    let how = match report.exit {
        Some(ExitReport::Code(code)) => format!("exit status {code}"),
        Some(ExitReport::Signal(signal)) => format!("signal {signal}"),
        None if report.outcome == "execed" => "became another program".to_owned(),
        None => report.outcome.clone(),
    };
    if let Some(error) = &report.error {
        return format!("{name}: {error}; {how}");
    }
    let Some(summary) = &report.summary else { return format!("{name}: {how}") };
    let kind = format!("{:?}", summary.verdict.kind).to_lowercase();
    let held = [summary.live.bytes.value, summary.peak.value].map(whole);
    format!("{name}: {kind}, {} held, {} at the peak; {how}", held[0], held[1])
}

fn short(command: &str) -> String {
    let mut text: String = command.chars().take(COMMAND).collect();
    if text.len() < command.len() {
        text.push_str("...");
    }
    text
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(value: f64) -> String {
    bytes(value.max(0.0) as u64)
}
