//! The heap part of the report as a person reads it.

use std::fmt::{self, Write};

use crate::{
    quantity::{bytes, count},
    site_report::{Amount, HeapReport, LostReport, Range, SiteReport},
};

/// Sites shown; of the first of them, who called.
const SITES: usize = 20;
const SITES_WITH_CALLERS: usize = 5;
/// Callers shown of one site.
const CALLERS: usize = 8;

/// Writes it.
pub fn write_heap(out: &mut String, heap: &HeapReport, rss: Option<[u64; 2]>) -> fmt::Result {
    match heap.every {
        0 | 1 => writeln!(out, "every block since the attach:")?,
        every => writeln!(
            out,
            "blocks since the attach, estimated from {} samples, one in {} on average; in brackets \
             95 % intervals:",
            count(heap.records),
            bytes(every)
        )?,
    }
    for (name, amount) in
        [("allocated", &heap.allocated), ("given back", &heap.freed), ("still held", &heap.live)]
    {
        writeln!(out, "{name:>12} {} in {} blocks", size(amount.bytes), number(amount.blocks))?;
    }
    writeln!(out, "{:>12} {} at once", "at most", size(heap.peak_bytes))?;
    if heap.mapped > 0 {
        let (mapped, live) = (bytes(heap.mapped), bytes(heap.mapped_live));
        let is_exact = heap.lost.blocks == 0 && heap.lost.frees == 0;
        let surety = if is_exact { " (exact)" } else { ", but for what was lost" };
        writeln!(out, "{:>12} {mapped} of pages, {live} of them still{surety}", "mapped")?;
    }
    if let Some([before, after]) = rss {
        writeln!(out, "{:>12} {} before, {} after", "resident", bytes(before), bytes(after))?;
    }
    write_lost(out, &heap.lost)?;
    write_sites(out, heap)
}

fn write_sites(out: &mut String, heap: &HeapReport) -> fmt::Result {
    if heap.sites.is_empty() {
        return writeln!(out, "\nnobody asked for memory");
    }
    let (held, asked) = ("still held", "allocated");
    writeln!(out, "\n{held:>30} {asked:>30}  by")?;
    for (number, site) in heap.sites.iter().take(SITES).enumerate() {
        write_site(out, site)?;
        if number < SITES_WITH_CALLERS {
            write_callers(out, site)?;
        }
    }
    match heap.sites.len().saturating_sub(SITES).saturating_add(heap.more_sites) {
        0 => Ok(()),
        more => writeln!(out, "{:>61}  {more} other places (see --json)", ""),
    }
}

fn write_site(out: &mut String, site: &SiteReport) -> fmt::Result {
    let pages = |bytes: u64| Range::exact(bytes);
    let (held, asked) = if site.mapped > 0 && site.allocated == Amount::default() {
        (pages(site.mapped_live), pages(site.mapped))
    } else {
        (site.live.bytes, site.allocated.bytes)
    };
    writeln!(out, "{:>30} {:>30}  {}", size(held), size(asked), site.place)
}

/// The way to a site, from the one of its stacks that holds most.
fn write_callers(out: &mut String, site: &SiteReport) -> fmt::Result {
    let callers = site.frames.get(site.cause + 1..).unwrap_or_default();
    for caller in callers.iter().take(CALLERS) {
        writeln!(out, "{:>61}    from {}", "", caller.place())?;
    }
    match callers.len().saturating_sub(CALLERS) {
        0 => Ok(()),
        more => writeln!(out, "{:>61}    and {more} frames more", ""),
    }
}

/// What is missing, and what that means for the numbers above.
fn write_lost(out: &mut String, lost: &LostReport) -> fmt::Result {
    let told = [
        (
            lost.blocks,
            "blocks found no room in a ring and are in no number (raise --ring or --every)",
        ),
        (lost.frees, "blocks given back found no room in a ring: they are shown as still held"),
        (lost.missed_frees, "blocks were given back unseen; until then they were shown as held"),
        (lost.samples, "samples found no room in the table of the target"),
        (lost.beyond_limit, "blocks are beyond what is held at once, and not shown as held"),
        (lost.stacks, "call stacks found no room: their blocks count as of an unknown place"),
        (lost.torn, "records were never finished, or make no sense"),
    ];
    told.iter()
        .filter(|(number, _)| *number > 0)
        .try_for_each(|(number, what)| writeln!(out, "{:>12} {} {what}", "LOST", count(*number)))
}

/// A number of bytes, with its interval where there is one.
fn size(range: Range) -> String {
    interval(range, bytes)
}

fn number(range: Range) -> String {
    interval(range, count)
}

fn interval(range: Range, show: impl Fn(u64) -> String) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let whole = |value: f64| value.round().max(0.0) as u64;
    let shown = show(whole(range.value));
    if range.low == range.high {
        return shown;
    }
    format!("{shown} ({} to {})", show(whole(range.low)), show(whole(range.high)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site_report::FrameReport;

    #[test]
    fn an_estimate_is_told_with_its_interval_and_a_loss_with_its_meaning() {
        let range = |value, low, high| Range { value, low, high };
        let mebi = f64::from(1 << 20);
        let live =
            Amount { bytes: range(2.0 * mebi, mebi, 3.0 * mebi), blocks: range(20.0, 10.0, 30.0) };
        let frame = |name: &str| FrameReport {
            function: Some(name.to_owned()),
            module: "/bin/a".to_owned(),
            ..FrameReport::default()
        };
        let frames = ["malloc", "leak", "main"].map(frame).to_vec();
        let place = "leak (a.c:5)".to_owned();
        let site = SiteReport { place, live, frames, cause: 1, ..SiteReport::default() };
        let lost = LostReport { frees: 7, ..LostReport::default() };
        let heap =
            HeapReport { every: 524_288, live, lost, sites: vec![site], ..HeapReport::default() };
        let mut out = String::new();
        write_heap(&mut out, &heap, Some([1 << 20, 4 << 20])).unwrap();
        assert!(out.contains("still held 2.0 MiB (1.0 MiB to 3.0 MiB) in 20 (10 to 30)"), "{out}");
        assert!(out.contains("LOST 7 blocks given back"), "{out}");
        assert!(out.contains("leak (a.c:5)"), "{out}");
        assert!(out.contains("    from main in a\n") && !out.contains("from leak"), "{out}");
        assert!(out.contains("1.0 MiB before, 4.0 MiB after"), "{out}");
    }
}
