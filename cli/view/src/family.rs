//! The other processes and programs of a session, a line each.

use std::collections::HashMap;

use crate::page::{Ink, Page};
use heapattach_ledger::ExitReport;
use heapattach_report::Report;
use heapattach_text::quantity::{bytes, count};

/// So many are listed.
const LISTED: usize = 40;
/// Letters of a command that are shown.
const COMMAND: usize = 40;

/// Writes them, if there are any.
pub fn write(page: &mut Page, report: &Report) {
    if !report.processes.is_empty() {
        let all: Vec<&Report> = report.processes.iter().chain([report]).collect();
        let rows = rows(report);
        let calls = all.iter().flat_map(|report| &report.functions).map(|row| row.calls);
        let calls = calls.fold(0, u64::saturating_add);
        let live: f64 = all.iter().map(|report| report.heap.live.bytes.value).sum();
        let text = format!(
            "{} processes, {} programs looked at; {} calls, {} in use in all; all else here \
             is of process {}",
            rows.len(),
            all.len(),
            count(calls),
            whole(live),
            report.pid,
        );
        page.prose("FAMILY", Ink::Plain, &text);
        rows.iter().take(LISTED).for_each(|(row, earlier)| {
            page.prose("", Ink::Plain, &line(row, *earlier));
        });
        let more = rows.len().saturating_sub(LISTED);
        if more > 0 {
            page.prose("", Ink::Dim, &format!("{more} more (--json)"));
        }
    }
    if let Some(not) = &report.not_looked_at {
        let count = not.count.map_or_else(|| "some".to_owned(), count);
        let text = format!("{count} of its processes were not looked at: {}", not.why);
        let label = if report.processes.is_empty() { "FAMILY" } else { "" };
        page.prose(label, Ink::Warning, &text);
    }
}

/// What every process was last, and how many programs before: first the one that the report is
/// about, then the others as they came.
fn rows(report: &Report) -> Vec<(&Report, usize)> {
    let mut rows = vec![(report, 0)];
    let mut at = HashMap::from([(report.pid, 0)]);
    for other in &report.processes {
        match at.get(&other.pid) {
            Some(&row) => {
                let (last, earlier): &mut (&Report, usize) = &mut rows[row];
                *earlier += 1;
                if row > 0 {
                    *last = other;
                }
            }
            None => {
                at.insert(other.pid, rows.len());
                rows.push((other, 0));
            }
        }
    }
    rows
}

fn line(report: &Report, earlier: usize) -> String {
    let before = match earlier {
        0 => String::new(),
        1 => " (another program before)".to_owned(),
        many => format!(" ({many} other programs before)"),
    };
    let name = format!("{} {}{before}", report.pid, short(&report.command));
    let how = match report.exit {
        Some(ExitReport::Code(code)) => format!("exit status {code}"),
        Some(ExitReport::Signal(signal)) => format!("signal {signal}"),
        None => report.outcome.to_string(),
    };
    if let Some(error) = &report.error {
        return format!("{name}: {error}; {how}");
    }
    let Some(summary) = &report.summary else { return format!("{name}: {how}") };
    let kind = format!("{:?}", summary.verdict.kind).to_lowercase();
    let held = [summary.live.bytes.value, summary.peak.value].map(whole);
    format!("{name}: {kind}, {} in use, {} at the peak; {how}", held[0], held[1])
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

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_report::{NotLookedAt, Outcome};

    fn member(pid: i32, command: &str, outcome: Outcome) -> Report {
        let mut report = Report::new(pid, command.to_owned());
        report.outcome = outcome;
        report
    }

    #[test]
    fn a_process_is_one_line_whatever_it_was() {
        let mut report = member(7, "sh -c make", Outcome::Exited);
        report.processes =
            vec![member(8, "sh", Outcome::Execed), member(8, "cc a.c", Outcome::Exited)];
        report.processes[1].exit = Some(ExitReport::Code(1));
        report.exit = Some(ExitReport::Signal(9));
        report.not_looked_at = Some(NotLookedAt { count: Some(3), why: "too many".to_owned() });
        let mut page = Page::new(None, false);
        write(&mut page, &report);
        let text = page.finish();
        for line in [
            "FAMILY    2 processes, 3 programs looked at; 0 calls, 0 B in use in all; all else here \
             is of process 7",
            "          8 cc a.c (another program before): exit status 1",
            "          7 sh -c make: signal 9",
            "          3 of its processes were not looked at: too many",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }
}
