//! A Go program's runtime, in sentences: its heap, its collections, its goroutines, and what of the resident set
//! is what.

use std::time::Duration;

use heapattach_report::{CountedReport, CountersReport};
use heapattach_text::quantity::{bytes, count, time};

use crate::page::{Ink, Page};

pub(super) fn write(page: &mut Page, report: &CountersReport, one: &CountedReport) {
    let total = |name: &str| one.statistics.total(name);
    let duration = |name: &str| time(Duration::from_nanos(total(name)));
    if one.statistics.stats.is_empty() {
        return;
    }
    let setting = |name: &str| {
        let value = one.statistics.opt.get(name);
        value.map_or_else(String::new, |value| match value.number() {
            Some(limit) if name == "GOMEMLIMIT" => bytes(u64::try_from(limit).unwrap_or(0)),
            _ => value.told(),
        })
    };
    let (used, spans) = (total("HeapAlloc"), total("HeapInuse"));
    page.prose(
        "heap        ",
        Ink::Plain,
        &format!(
            "{} of objects ({}) in {} of spans, {} % of them; {} free; {} returned to the kernel",
            bytes(used),
            count(total("HeapObjects")),
            bytes(spans),
            percent(used, spans),
            bytes(total("HeapIdle").saturating_sub(total("HeapReleased"))),
            bytes(total("HeapReleased")),
        ),
    );
    page.prose(
        "collections ",
        Ink::Plain,
        &format!(
            "{} ({} forced), {:.2} % of the processor time since the start; pauses {} in all, {} the last, \
             {} the longest of the last 256",
            count(total("NumGC")),
            count(total("NumForcedGC")),
            total("GCCPUFraction.ppm") as f64 / 1e4,
            duration("PauseTotalNs"),
            duration("PauseNs.last"),
            duration("PauseNs.longest_of_256"),
        ),
    );
    page.prose(
        "goal        ",
        Ink::Plain,
        &format!(
            "{} live after the last collection, the next one at {} (GOGC={}, GOMEMLIMIT={})",
            bytes(total("live_after_gc")),
            bytes(total("NextGC")),
            setting("GOGC"),
            setting("GOMEMLIMIT"),
        ),
    );
    page.prose(
        "goroutines  ",
        Ink::Plain,
        &format!(
            "{}: {} running, {} runnable, {} in system calls, {} waiting; {} of stacks",
            count(total("NumGoroutine")),
            count(total("goroutines.running")),
            count(total("goroutines.runnable")),
            count(total("goroutines.syscall")),
            count(total("goroutines.waiting")),
            bytes(total("goroutines.stacks")),
        ),
    );
    let resident = report.process.resident;
    let idle = total("HeapIdle").saturating_sub(total("HeapReleased"));
    let stacks = total("StackSys");
    let ready = total("mapped_ready");
    let books = ready.saturating_sub(spans).saturating_sub(idle).saturating_sub(stacks);
    let rest = match resident.checked_sub(ready) {
        Some(rest) => format!("{} of others: code, files, C", bytes(rest)),
        None => format!("less {} that were never touched", bytes(ready - resident)),
    };
    page.prose(
        "resident    ",
        Ink::Plain,
        &format!(
            "{} = {} heap in use + {} heap free + {} stacks + {} books + {rest}",
            bytes(resident),
            bytes(spans),
            bytes(idle),
            bytes(stacks),
            bytes(books),
        ),
    );
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100) / whole.max(1)
}
