//! What could be set otherwise.

use heapattach_report::CountedReport;
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
