//! What could be set otherwise.

use std::time::Duration;

use heapattach_report::{AppliedReport, CountedReport};
use heapattach_text::quantity::{bytes, count, time};
use heapattach_verdict::advice::Takes;

use crate::page::{Ink, Page};

pub(super) fn write(page: &mut Page, pid: i32, one: &CountedReport) {
    page.gap();
    if one.advice.is_empty() {
        page.prose("ADVICE", Ink::Bold, "nothing that is counted calls for another setting");
        return;
    }
    for (number, advice) in (1..).zip(&one.advice) {
        let label = if number == 1 { "ADVICE" } else { "" };
        page.prose(label, Ink::Bold, &format!("{number}. {}", advice.observation));
        page.prose("", Ink::Plain, &format!("because {}", advice.cause));
        if !advice.setting.is_empty() {
            let when = match advice.takes {
                Takes::Restart => "needs a restart",
                Takes::Call => "live",
            };
            page.command("", &format!("{}   # {when}", advice.setting));
        }
        for remedy in &advice.live {
            let command = format!("heapattach allocator -p {pid} --apply {remedy}   # now");
            page.command("", &command);
        }
        page.prose("", Ink::Plain, &format!("wins: {}; costs: {}", advice.gain, advice.cost));
        page.prose("", Ink::Dim, &format!("rule {}: {}", advice.rule, advice.source));
    }
}

/// What was done on request.
pub(super) fn write_applied(page: &mut Page, applied: &AppliedReport) {
    let ink = if applied.error.is_some() { Ink::Warning } else { Ink::Bold };
    page.prose("APPLIED", ink, &told(applied));
    if applied.left > 0 {
        let left = format!("{} ranges were left: --max-pause was over", count(applied.left));
        page.prose("", Ink::Warning, &left);
    }
    match (&applied.error, &applied.setting_before) {
        (Some(_), _) => {}
        (None, Some(before)) => {
            let stays = match applied.remedy.starts_with("arena-max") {
                true => "; arenas that are there stay",
                false => "",
            };
            let back = format!("taken back by --apply {before}{stays}");
            page.prose("", Ink::Dim, &back);
        }
        (None, None) => {
            let back = "nothing takes it back, and nothing needs to: the pages come again when they are used";
            page.prose("", Ink::Dim, back);
        }
    }
}

fn told(applied: &AppliedReport) -> String {
    let AppliedReport { remedy, before, foretold, after, ranges, stopped_us, .. } = applied;
    let micros = |us: f64| time(Duration::try_from_secs_f64(us / 1e6).unwrap_or_default());
    if let Some(error) = &applied.error {
        return format!("{remedy}: {error}");
    }
    let by = match &applied.call {
        None => format!("by {} calls of madvise", count(*ranges)),
        Some(call) => {
            let took = micros(applied.call_us.unwrap_or_default());
            format!("by {call}, which took a thread of the process {took} at most")
        }
    };
    let stopped = micros(*stopped_us);
    if let (Some(was), Some(is)) = (&applied.setting_before, &applied.setting_after) {
        return format!("{was} before, {is} after, {by}; stopped for {stopped}");
    }
    let foretold = foretold.map_or("what it would be was not known".to_owned(), |foretold| {
        format!("{} foretold", bytes(foretold))
    });
    format!(
        "{remedy}: resident {} before, {} after ({} less; {foretold}) {by}; stopped for {stopped}",
        bytes(*before),
        bytes(*after),
        bytes(before.saturating_sub(*after))
    )
}
