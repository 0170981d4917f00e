//! The end of a session as a person reads it: what the summary says of the heap, and what was done
//! to the target to know it.

use std::time::Duration;

use crate::{
    family,
    next::write_next,
    page::{Ink, Page},
    summary,
};
use heapattach_ledger::Runtime;
use heapattach_report::{FunctionReport, HookedBy, OwnCost, Report, TargetState};
use heapattach_text::quantity::{bytes, count, time};

/// Functions that are not hooked, modules without names: told shortly, --json has them all.
const LISTED: usize = 3;

/// Writes the whole report.
pub fn report(report: &Report, mut page: Page) -> String {
    // Of a family, what is largest is what the user looks for.
    let (all, report) = (report, family::lead(report));
    let counted = time(Duration::from_millis(report.counted_ms));
    let title = format!("process {} ({}), looked at for {counted}", report.pid, report.command);
    page.line([title.into()]);
    if let Some(why) = &report.why {
        page.line([format!("ended: {why}").into()]);
    }
    page.gap();
    match &report.summary {
        Some(summary) => summary::write(summary, &mut page),
        None => page.prose("HEAP", Ink::Warning, "nothing is known: nothing was recorded"),
    }
    family::write(&mut page, all, report);
    write_hooked(&mut page, report);
    write_runtimes(&mut page, report);
    write_cost(&mut page, report, &all.expense);
    write_state(&mut page, report);
    let next = report.summary.as_ref().map_or(&[][..], |summary| &summary.next);
    write_files(&mut page, report);
    family::write_rest(&mut page, all, report);
    write_next(&mut page, next, report.recording.as_ref().map(|recording| &*recording.path));
    page.finish()
}

/// Writes only the verdict, and what stands against believing it.
pub fn verdict(report: &Report, mut page: Page) -> String {
    match &family::lead(report).summary {
        Some(summary) => {
            page.prose("VERDICT", Ink::Bold, &summary.verdict.text);
            for lost in &summary.lost {
                page.prose("DROPPED", Ink::Warning, lost);
            }
        }
        None => page.prose("HEAP", Ink::Warning, "nothing is known: nothing was recorded"),
    }
    if report.target == TargetState::Altered {
        write_state(&mut page, report);
    }
    page.finish()
}

fn write_hooked(page: &mut Page, report: &Report) {
    let way = |via: HookedBy| {
        let names = report.functions.iter().filter(move |row| row.via == via);
        let names = names.flat_map(|row| std::iter::once(&row.function).chain(&row.aliases));
        let mut names: Vec<&str> = names.map(String::as_str).collect();
        names.dedup();
        (!names.is_empty()).then(|| format!("{} by {via}", names.join(", ")))
    };
    let calls = report.functions.iter().map(|row: &FunctionReport| row.calls);
    let calls = calls.fold(0, u64::saturating_add);
    let ways: Vec<String> =
        [HookedBy::Entry, HookedBy::Slots].into_iter().filter_map(way).collect();
    if ways.is_empty() {
        return page.prose("HOOKED", Ink::Warning, "no function was hooked");
    }
    let text = format!("{}; {} calls (exact)", ways.join("; "), count(calls));
    page.prose("HOOKED", Ink::Plain, &text);
    let not = report.not_hooked.iter().map(|n| format!("{} ({}): {}", n.function, n.module, n.why));
    write_list(page, "", "not hooked: ", not);
    if report.waited > 0 {
        let text = format!("{} records waited for room in a ring", count(report.waited));
        page.prose("", Ink::Plain, &text);
    }
    report.stacks.words().iter().for_each(|text| page.prose("", Ink::Plain, text));
}

fn write_runtimes(page: &mut Page, report: &Report) {
    let told = report.runtimes.iter().map(Runtime::title);
    for (number, text) in told.enumerate() {
        page.prose(if number == 0 { "RUNS" } else { "" }, Ink::Plain, &text);
    }
}

fn write_cost(page: &mut Page, report: &Report, own: &OwnCost) {
    let micros = |us: f64| time(Duration::from_secs_f64(us.max(0.0) / 1e6));
    let stops = &report.stops;
    if !stops.is_empty() {
        let total: f64 = stops.iter().map(|stop| stop.stopped_us).sum();
        let longest = stops.iter().map(|stop| stop.stopped_us).fold(0.0, f64::max);
        let threads = stops.iter().map(|stop| stop.threads).max().unwrap_or(0);
        let text = match stops.len() {
            1 => format!("1 stop of {} ({threads} threads)", micros(total)),
            number => format!(
                "{number} stops, {} in all, the longest {} ({threads} threads)",
                micros(total),
                micros(longest)
            ),
        };
        page.prose("COST", Ink::Plain, &text);
    }
    let text = format!(
        "memory added while attached: {} used, {} of address space; {}",
        bytes(report.memory.used),
        bytes(report.memory.reserved),
        window(report)
    );
    page.prose(if stops.is_empty() { "COST" } else { "" }, Ink::Plain, &text);
    let text = format!(
        "heapattach itself: {} of processor time, at most {} of memory",
        time(own.cpu()),
        bytes(own.memory)
    );
    page.prose("", Ink::Plain, &text);
}

fn window(report: &Report) -> String {
    if report.window_times == 0 {
        return "no unsafe window".to_owned();
    }
    let why = report.window_why.as_deref().unwrap_or("the engine had no safe place for the call");
    format!(
        "unsafe window: {:.0} us in {} calls (a SIGKILL of the tracer then would crash the \
         target): {why}",
        report.window_us, report.window_times
    )
}

fn write_state(page: &mut Page, report: &Report) {
    let page_left = report.stub_page.as_ref();
    let (ink, text) = match (report.target, page_left) {
        (TargetState::Restored, None) => (Ink::Plain, "as it was found".to_owned()),
        (TargetState::Restored, Some(at)) => (
            Ink::Plain,
            format!("as it was found, but for one page of jumps at {at} that may still be in use"),
        ),
        (state @ (TargetState::Untouched | TargetState::Altered), _) => {
            (Ink::Warning, state.to_string())
        }
    };
    page.prose("TARGET", ink, &text);
    if !report.children.is_empty() {
        let text = format!("{} processes forked meanwhile were cleaned up", report.children.len());
        page.prose("", Ink::Plain, &text);
    }
    report.left.iter().for_each(|left| page.prose("", Ink::Warning, &format!("left: {left}")));
    if report.target == TargetState::Altered {
        let cure = format!("clean up with: heapattach detach -p {}", report.pid);
        page.prose("", Ink::Warning, &cure);
    }
}

fn write_files(page: &mut Page, report: &Report) {
    let Some(recording) = &report.recording else { return };
    let (path, size) = (recording.path.display(), bytes(recording.bytes));
    page.prose("FILES", Ink::Plain, &format!("{path} ({size})"));
    if let Some(cut) = &recording.cut {
        let after =
            cut.after_ms.map(|ms| format!(" {} after it began", time(Duration::from_millis(ms))));
        let text = format!("it ends{}: {}", after.unwrap_or_default(), cut.why);
        page.prose("", Ink::Warning, &text);
    }
}

fn write_list(
    page: &mut Page,
    label: &str,
    before: &str,
    items: impl ExactSizeIterator<Item = String>,
) {
    let more = items.len().saturating_sub(LISTED);
    items.take(LISTED).for_each(|item| page.prose(label, Ink::Plain, &format!("{before}{item}")));
    if more > 0 {
        page.prose("", Ink::Dim, &format!("{before}{more} more (--json)"));
    }
}

#[cfg(test)]
mod tests {
    use heapattach_verdict::summary::Summary;

    use super::*;
    use heapattach_ledger::sample;
    use heapattach_report::{NotHooked, RecordingReport, StopReport, StoppedFor};

    fn row(function: &str, via: HookedBy) -> FunctionReport {
        FunctionReport {
            function: function.to_owned(),
            module: "libc.so.6".to_owned(),
            via,
            calls: 617,
            ..FunctionReport::default()
        }
    }

    #[test]
    fn a_report_tells_the_heap_the_hooks_the_cost_and_what_stays() {
        let mut report = Report::new(7, "app".to_owned());
        report.counted_ms = 20_000;
        report.functions = vec![row("malloc", HookedBy::Entry), row("free", HookedBy::Slots)];
        report.not_hooked = vec![NotHooked {
            function: "valloc".to_owned(),
            module: "libx.so".to_owned(),
            why: "its first bytes were changed".to_owned(),
        }];
        report.stops = vec![StopReport { why: StoppedFor::Attach, threads: 5, stopped_us: 1250.0 }];
        report.target = TargetState::Restored;
        report.summary = Some(Summary::new(&sample::ledger()));
        let path = "app.7.heapattach".into();
        report.recording = Some(RecordingReport { path, bytes: 2048, hangs: false, cut: None });
        let text = super::report(&report, Page::new(None, false));
        for line in [
            "process 7 (app), looked at for 20.0 s",
            "HOOKED    malloc by entry; free by slots; 1 234 calls (exact)",
            "          not hooked: valloc (libx.so): its first bytes were changed",
            "COST      1 stop of 1.25 ms (5 threads)",
            "TARGET    as it was found",
            "FILES     app.7.heapattach (2.0 KiB)",
        ] {
            assert!(text.lines().any(|told| told == line), "{line}\n{text}");
        }
        assert!(text.contains("\nVERDICT   Grows by "), "{text}");
        assert!(text.lines().count() <= 40, "more than a screen:\n{text}");
    }

    #[test]
    fn a_quiet_session_tells_its_verdict_and_a_target_that_is_not_as_it_was() {
        let mut report = Report::new(7, "app".to_owned());
        report.target = TargetState::Restored;
        report.summary = Some(Summary::new(&sample::ledger()));
        let text = super::verdict(&report, Page::new(None, false));
        assert!(text.starts_with("VERDICT   Grows by ") && text.lines().count() == 1, "{text}");
        report.target = TargetState::Altered;
        let text = super::verdict(&report, Page::new(None, false));
        assert!(text.contains("\nTARGET    altered\n"), "{text}");
    }

    #[test]
    fn an_altered_target_is_told_with_its_cure() {
        let mut report = Report::new(7, "app".to_owned());
        report.target = TargetState::Altered;
        let text = super::report(&report, Page::new(None, false));
        assert!(text.contains("TARGET    altered\n"), "{text}");
        assert!(text.contains("clean up with: heapattach detach -p 7"), "{text}");
    }
}
