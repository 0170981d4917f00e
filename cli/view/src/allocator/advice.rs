//! What could be set otherwise.

use std::time::Duration;

use heapattach_report::{AppliedReport, CountedReport};
use heapattach_text::quantity::{bytes, count, time};
use heapattach_verdict::advice::Takes;

use crate::page::{Ink, Page};

pub(super) fn write(page: &mut Page, one: &CountedReport) {
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
        page.prose("", Ink::Plain, &format!("wins: {}; costs: {}", advice.gain, advice.cost));
        page.prose("", Ink::Dim, &format!("rule {}: {}", advice.rule, advice.source));
    }
}

/// What was done on request.
pub(super) fn write_applied(page: &mut Page, applied: &AppliedReport) {
    let AppliedReport { remedy, before, foretold, after, ranges, stopped_us, .. } = applied;
    let stopped = time(Duration::try_from_secs_f64(stopped_us / 1e6).unwrap_or_default());
    let told = match &applied.error {
        Some(error) => format!("{remedy}: {error}"),
        None => format!(
            "{remedy}: resident {} before, {} after ({} less; {} foretold) by {} calls of madvise; stopped for \
             {stopped}",
            bytes(*before),
            bytes(*after),
            bytes(before.saturating_sub(*after)),
            bytes(*foretold),
            count(*ranges)
        ),
    };
    let ink = if applied.error.is_some() { Ink::Warning } else { Ink::Bold };
    page.prose("APPLIED", ink, &told);
    if applied.left > 0 {
        let left = format!("{} ranges were left: --max-pause was over", count(applied.left));
        page.prose("", Ink::Warning, &left);
    }
    if applied.error.is_none() {
        let back =
            "nothing takes it back, and nothing needs to: the pages come again when they are used";
        page.prose("", Ink::Dim, back);
    }
}
