//! The other processes and programs of a session, in few lines: the large ones each, the others by program;
//! then what all have in use together.

use std::collections::BTreeMap;

use heapattach_verdict::figure;

use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};
use heapattach_report::{Report, TargetState};
use heapattach_text::quantity::{bytes, count, counted};

/// So many processes are told one by one.
const LISTED: usize = 12;
/// Those that have had less than this part of the largest in use are told by program.
const SMALL: f64 = 0.01;
/// Lines of programs.
const PROGRAMS: usize = 12;
/// Places that are told of all processes together.
const PLACES: usize = 10;
/// Recordings that are listed.
const FILES: usize = 40;
/// Letters of a command that are shown.
const COMMAND: usize = 40;

/// The process that the report leads with: the one that has most in use.
pub fn lead(report: &Report) -> &Report {
    let size = |report: &Report| report.heap.live.bytes.value;
    let with_heap = report.processes.iter().filter(|other| other.summary.is_some());
    with_heap.fold(report, |lead, other| if size(other) > size(lead) { other } else { lead })
}

/// Writes them, if there are any; `lead` is what the rest of the page is about.
pub fn write(page: &mut Page, report: &Report, lead: &Report) {
    if !report.processes.is_empty() {
        let all: Vec<&Report> = report.processes.iter().chain([report]).collect();
        let rows = rows(report);
        let calls = all.iter().flat_map(|report| &report.functions).map(|row| row.calls);
        let calls = calls.fold(0, u64::saturating_add);
        let live: f64 = all.iter().map(|report| report.heap.live.bytes.value).sum();
        let programs = all.iter().filter(|report| report.heap_of.is_none()).count();
        let heaps = all.len() - programs;
        let processes = match rows.len() - heaps {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        };
        let programs = counted(programs as u64, "program");
        let heap = lead.heap_of.as_ref().map(|own| format!(", and of the heap of {own}"));
        let text = format!(
            "{processes}, {programs} looked at; {} calls, {} in use in all; all else here \
             is of process {}{}",
            count(calls),
            whole(live),
            lead.pid,
            heap.unwrap_or_default(),
        );
        page.prose("FAMILY", Ink::Plain, &text);
        write_rows(page, rows);
        write_together(page, report);
    }
    if let Some(not) = &report.not_looked_at {
        let count = not.count.map_or_else(|| "some".to_owned(), count);
        let text = format!("{count} of its processes were not looked at: {}", not.why);
        let label = if report.processes.is_empty() { "FAMILY" } else { "" };
        page.prose(label, Ink::Warning, &text);
    }
}

/// What else the processes left: recordings, and what is not as it was found.
pub fn write_rest(page: &mut Page, report: &Report, lead: &Report) {
    let others = || {
        let all = std::iter::once(report).chain(&report.processes);
        all.filter(|other| !std::ptr::eq(*other, lead))
    };
    for other in others().filter(|other| other.target == TargetState::Altered) {
        let pid = other.pid;
        let text = format!("process {pid} is altered; clean up with: heapattach detach -p {pid}");
        page.prose("", Ink::Warning, &text);
    }
    let recordings = others().filter_map(|other| other.recording.as_ref());
    let recordings: Vec<_> = recordings.collect();
    for recording in recordings.iter().take(FILES) {
        let text = format!("{} ({})", recording.path.display(), bytes(recording.bytes));
        page.prose("", Ink::Plain, &text);
    }
    let more = recordings.len().saturating_sub(FILES);
    if more > 0 {
        page.prose("", Ink::Dim, &format!("{more} more (--json)"));
    }
}

/// What every process was last, and how many programs before: first the one that the report is
/// about, then the others as they came.
fn rows(report: &Report) -> Vec<(&Report, usize)> {
    let mut rows = vec![(report, 0)];
    let mut at = std::collections::HashMap::from([(report.pid, 0)]);
    for other in &report.processes {
        match at.get(&other.pid) {
            // Two heaps of one process.
            _ if other.heap_of.is_some() => rows.push((other, 0)),
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

/// The large ones and those that went wrong a line each, the largest first; then the programs of the others.
fn write_rows(page: &mut Page, mut rows: Vec<(&Report, usize)>) {
    rows.sort_by(|(a, _), (b, _)| peak(b).total_cmp(&peak(a)));
    let largest = rows.first().map_or(0.0, |(report, _)| peak(report));
    let is_small =
        |(report, _): &(&Report, usize)| report.error.is_none() && peak(report) <= largest * SMALL;
    let (small, large): (Vec<_>, Vec<_>) = rows.into_iter().partition(is_small);
    // One alone is no more than a line either way.
    let (small, more) = if small.len() > 1 { (small, Vec::new()) } else { (Vec::new(), small) };
    let large: Vec<_> = large.into_iter().chain(more).collect();
    for (row, earlier) in large.iter().take(LISTED) {
        page.prose("", Ink::Plain, &line(row, *earlier));
    }
    let rest = large.into_iter().skip(LISTED).chain(small);
    let mut programs: BTreeMap<&str, Vec<&Report>> = BTreeMap::new();
    rest.for_each(|(row, _)| programs.entry(program(row)).or_default().push(row));
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|(_, rows)| std::cmp::Reverse(rows.len()));
    for (name, rows) in programs.iter().take(PROGRAMS) {
        page.prose("", Ink::Plain, &line_of_program(name, rows));
    }
    let more: usize = programs.iter().skip(PROGRAMS).map(|(_, rows)| rows.len()).sum();
    if more > 0 {
        page.prose("", Ink::Dim, &format!("{more} more (--json)"));
    }
}

fn write_together(page: &mut Page, report: &Report) {
    let places = report.together.iter().filter(|place| place.live.bytes.value > 0.0);
    let places: Vec<_> = places.collect();
    if places.is_empty() {
        return;
    }
    page.gap();
    page.line([Span::new(Ink::Bold, "all processes together")]);
    let mut table = Table::new([
        Column::right("in use"),
        Column::right("blocks").spare(),
        Column::right("allocated").spare(),
        Column::right("processes"),
        Column::left("where"),
    ]);
    for place in places.iter().take(PLACES) {
        table.row([
            figure::bytes(place.live.bytes.into()).into(),
            figure::blocks(place.live.blocks.into()).into(),
            figure::bytes(place.allocated.bytes.into()).into(),
            place.processes.to_string().into(),
            Span::new(Ink::Bold, &place.place),
        ]);
    }
    table.write(page);
    let more = places.len().saturating_sub(PLACES);
    if more > 0 {
        page.line([Span::new(Ink::Dim, format!("{more} more places (--json)"))]);
    }
    page.gap();
}

fn line(report: &Report, earlier: usize) -> String {
    let before = match earlier {
        0 => String::new(),
        1 => " (another program before)".to_owned(),
        many => format!(" ({many} other programs before)"),
    };
    let heap = report.heap_of.as_ref().map(|own| format!("heap of {own}: "));
    let heap = heap.unwrap_or_default();
    let name = format!("{} {heap}{}{before}", report.pid, short(&report.command));
    let how = end(report);
    if let Some(error) = &report.error {
        return format!("{name}: {error}; {how}");
    }
    let Some(summary) = &report.summary else { return format!("{name}: {how}") };
    let kind = format!("{:?}", summary.verdict.kind).to_lowercase();
    let held = [summary.live.bytes.value, summary.peak.value].map(whole);
    format!("{name}: {kind}, {} in use, {} at the peak; {how}", held[0], held[1])
}

/// Small processes of one program: shells, shims, helpers.
fn line_of_program(name: &str, rows: &[&Report]) -> String {
    let [one] = rows else {
        let live: f64 = rows.iter().map(|row| row.heap.live.bytes.value).sum();
        let most = rows.iter().map(|row| peak(row)).fold(0.0, f64::max);
        let number = count(rows.len() as u64);
        let mut ends: Vec<String> = rows.iter().map(|row| end(row)).collect();
        ends.sort();
        ends.dedup();
        let ends = if ends.len() > 3 { "different ends".to_owned() } else { ends.join(", ") };
        let (live, most) = (whole(live), whole(most));
        return format!("{number} x {name}: {live} in use, at most {most} each; {ends}");
    };
    line(one, 0)
}

fn end(report: &Report) -> String {
    match report.exit {
        Some(exit) if report.core_dumped => format!("{} (core dumped)", exit.words()),
        Some(exit) => exit.words(),
        None => report.outcome.to_string(),
    }
}

fn peak(report: &Report) -> f64 {
    report.heap.peak_bytes.value
}

/// The file name of its program, or what a title begins with: `postgres` of `postgres: alice db`.
fn program(report: &Report) -> &str {
    let first = report.command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default().trim_end_matches(':')
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
    use heapattach_verdict::summary::Summary;

    use super::*;
    use heapattach_ledger::{ExitReport, sample};
    use heapattach_profile::{Amount, Range};
    use heapattach_report::{NotLookedAt, Outcome, RecordingReport, TogetherReport};

    fn member(pid: i32, command: &str, outcome: Outcome) -> Report {
        let mut report = Report::new(pid, command.to_owned());
        report.outcome = outcome;
        report
    }

    fn large(pid: i32, command: &str, live: u64) -> Report {
        let mut report = member(pid, command, Outcome::Detached);
        report.heap.live.bytes = Range::exact(live);
        report.heap.peak_bytes = Range::exact(live);
        report.summary = Some(Summary::new(&sample::ledger()));
        report.recording = Some(RecordingReport {
            path: format!("{pid}.heapattach").into(),
            ..Default::default()
        });
        report
    }

    fn text(report: &Report) -> String {
        let mut page = Page::new(None, false);
        write(&mut page, report, lead(report));
        write_rest(&mut page, report, lead(report));
        page.finish()
    }

    #[test]
    fn a_process_is_one_line_whatever_it_was() {
        let mut report = member(7, "sh -c make", Outcome::Exited);
        report.processes =
            vec![member(8, "sh", Outcome::Execed), member(8, "cc a.c", Outcome::Exited)];
        report.processes[1].exit = Some(ExitReport::Code(1));
        report.processes[1].error = Some("it cannot be hooked".to_owned());
        report.exit = Some(ExitReport::Signal(9));
        report.not_looked_at = Some(NotLookedAt { count: Some(3), why: "too many".to_owned() });
        let text = text(&report);
        for line in [
            "FAMILY    2 processes, 3 programs looked at; 0 calls, 0 B in use in all; all else here \
             is of process 7",
            "          8 cc a.c (another program before): it cannot be hooked; exit status 1",
            "          7 sh -c make: killed by SIGKILL",
            "          3 of its processes were not looked at: too many",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_largest_process_leads_and_small_ones_are_told_by_program() {
        let mut report = large(7, "/usr/lib/postgres -D data", 1000);
        report.processes = vec![large(8, "postgres: alice db", 1 << 20)];
        report.processes.extend((9..15).map(|pid| {
            let mut shim = large(pid, "/bin/bash /usr/bin/pyenv exec python", 64);
            shim.recording = None;
            shim.exit = Some(ExitReport::Code(0));
            shim
        }));
        assert_eq!(lead(&report).pid, 8);
        let text = text(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("all else here is of process 8"), "{text}");
        assert!(lines[1].starts_with("          8 postgres: alice db: "), "{text}");
        let shims = "          6 x bash: 384 B in use, at most 64 B each; exit status 0";
        assert!(lines.contains(&shims), "{text}");
        assert_eq!(lines.last(), Some(&"          7.heapattach (0 B)"), "{text}");
    }

    #[test]
    fn two_heaps_of_one_process_are_a_line_each_and_no_program_before() {
        let mut report = large(7, "server", 1 << 20);
        report.processes = vec![large(7, "server", 2 << 20)];
        report.processes[0].heap_of = Some("go1.27".to_owned());
        let text = text(&report);
        assert!(text.contains("1 process, 1 program looked at"), "{text}");
        assert!(text.contains("of process 7, and of the heap of go1.27"), "{text}");
        assert!(text.contains("7 heap of go1.27: server: ") && !text.contains("before"), "{text}");
    }

    #[test]
    fn places_of_all_processes_are_one_table() {
        let mut report = large(7, "app", 1000);
        report.processes = vec![large(8, "app", 500)];
        let live = Amount { bytes: Range::exact(1500), blocks: Range::exact(3) };
        let place = "make (a.c:3)".to_owned();
        report.together = vec![TogetherReport { place, processes: 2, live, allocated: live }];
        let text = text(&report);
        let table = "\nall processes together\n in use  blocks  allocated  processes  where\n\
                     1.5 KiB       3    1.5 KiB          2  make (a.c:3)\n";
        assert!(text.contains(table), "{text}");
    }
}
