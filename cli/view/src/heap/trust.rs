//! How far what is told of an allocator is certain.

use heapattach_report::AllocatorReport;
use heapattach_text::quantity::count;

use crate::page::{Ink, Page};

pub(super) fn write_trust(page: &mut Page, allocator: &AllocatorReport) {
    if let Some(why) = &allocator.refused {
        return page.prose("HEAP", Ink::Warning, &format!("{}: {why}", allocator.name));
    }
    let (blocks, arenas) = (count(allocator.blocks()), allocator.arenas.len());
    let checks = allocator.checks.iter();
    let all = checks.clone().fold(0_u64, |sum, check| sum.saturating_add(check.times));
    let failed = checks.fold(0_u64, |sum, check| sum.saturating_add(check.failed));
    let agree = all.saturating_sub(failed);
    let trust = match allocator.is_exact {
        true => format!("exact: all {all} checks hold"),
        false => format!("not exact: {agree} of {all} checks hold"),
    };
    let text = format!("{}: {blocks} blocks in use in {arenas} arenas; {trust}", allocator.layout);
    page.prose("HEAP", Ink::Plain, &text);
    if allocator.in_flight > 0 {
        let text = format!(
            "{} threads may be in the middle of a call: so many blocks may be told as they were before it",
            allocator.in_flight
        );
        page.prose("", Ink::Plain, &text);
    }
    write_doubts(page, allocator);
    allocator.notes.iter().for_each(|note| page.prose("", Ink::Plain, note));
}

/// Why what is told of it is not exact.
pub(super) fn write_doubts(page: &mut Page, allocator: &AllocatorReport) {
    for doubt in &allocator.doubts {
        let arena = doubt.arena.as_ref().map(|arena| format!("{arena}: ")).unwrap_or_default();
        page.prose("DOUBT", Ink::Warning, &format!("{arena}{}", doubt.why));
    }
}
