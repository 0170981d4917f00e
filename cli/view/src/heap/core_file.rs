//! Of which core, and what is missing in it.

use heapattach_report::{CensusReport, CoreReport};
use heapattach_text::quantity::bytes;

use super::micros;
use crate::page::{Ink, Page};

/// Files that are named.
const FEW: usize = 3;

pub(super) fn write_core(page: &mut Page, report: &CensusReport, core: &CoreReport) {
    let threads = match report.moment.threads {
        1 => "1 thread".to_owned(),
        threads => format!("{threads} threads"),
    };
    let walk = micros(report.moment.walk_us);
    page.line([format!("{}: {}, {threads}; walk: {walk}", core.file, bytes(core.bytes)).into()]);
    let sizes = "a core does not tell what was in memory: sizes are those of pages that it has and that are \
                 not zero";
    page.prose("", Ink::Dim, sizes);
    if core.cut_off > 0 {
        let text =
            format!("the core is cut off: {} behind its end are missing", bytes(core.cut_off));
        page.prose("MISSING", Ink::Warning, &text);
    }
    if core.left_out > 0 {
        let text = format!(
            "{} of memory were left out when the core was written (coredump_filter, MADV_DONTDUMP)",
            bytes(core.left_out)
        );
        page.prose("MISSING", Ink::Warning, &text);
    }
    for file in core.files.iter().take(FEW) {
        let text = format!("{} of {}: {}", bytes(file.bytes), file.path, file.why);
        page.prose("MISSING", Ink::Plain, &text);
    }
    if core.files.len() > FEW {
        let text = format!("and of {} more files (--json)", core.files.len() - FEW);
        page.prose("", Ink::Plain, &text);
    }
}

/// What a look at a core cannot see.
pub(super) const BLIND: &str = "a core has nothing of what the kernel kept: blocks that only epoll or timers \
                                lead to are told as leaked";
