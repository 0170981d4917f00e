//! One screen: what can be said, who holds memory, how much of it to believe, and what to do next.

use std::time::Duration;

use heapattach_verdict::{
    figure::{Unit, blocks, bytes, clock, percent, percentage},
    summary::{COURSE, MappedSite, Summary},
};

use super::{
    bar::{bar, sparkline},
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};
use heapattach_ledger::Ledger;
use heapattach_profile::Amount;
use heapattach_text::quantity;

/// Sites that are told with callers; blind spots are told shortly, too.
const WITH_CALLERS: usize = 3;
const BLIND: usize = 4;
/// Types that are told.
const TYPES: usize = 8;
/// Columns of a bar.
const BAR: usize = 10;

/// As text, except for what only the caller knows: files, and what to do next.
pub fn write(summary: &Summary, page: &mut Page) {
    page.prose("VERDICT", Ink::Bold, &summary.verdict.text);
    write_sums(summary, page);
    if !summary.course.is_empty() {
        let room = page.width().map_or(COURSE, |width| width / 2).min(COURSE);
        let mut draw = |label: &str, course: &[f64], what: &str| {
            let drawn = Span::new(Ink::More, sparkline(course, room));
            page.line([Span::new(Ink::Bold, label), drawn, Span::new(Ink::Dim, what)]);
        };
        draw("COURSE    ", &summary.course, " in use");
        if !summary.mapped_course.is_empty() {
            let mapped: Vec<f64> = summary.mapped_course.iter().map(|b| *b as f64).collect();
            draw("          ", &mapped, " mapped");
        }
    }
    page.gap();
    write_sites(summary, page);
    write_mapped(summary, page);
    write_types(summary, page);
    page.gap();
    if !summary.temporary_by.is_empty() {
        let text = format!(
            "{} of all blocks lived for less than {} ms; most of these: {}",
            percent(summary.temporary.into()),
            summary.temporary_ms,
            summary.temporary_by
        );
        page.prose("TEMPORARY", Ink::Plain, &text);
    }
    for (number, lost) in summary.lost.iter().enumerate() {
        page.prose(if number == 0 { "DROPPED" } else { "" }, Ink::Warning, lost);
    }
    for (number, blind) in summary.blind.iter().take(BLIND).enumerate() {
        page.prose(if number == 0 { "NOT SEEN" } else { "" }, Ink::Plain, blind);
    }
    if summary.blind.len() > BLIND {
        let more = format!("and {} more (--json)", summary.blind.len() - BLIND);
        page.prose("", Ink::Dim, &more);
    }
    page.prose("ACCURACY", Ink::Plain, &summary.accuracy);
}

fn write_sums(summary: &Summary, page: &mut Page) {
    let told = |amount: &Amount| {
        let noun = if amount.blocks.value == 1.0 { "block" } else { "blocks" };
        format!("{} in {} {noun}", bytes(amount.bytes.into()), blocks(amount.blocks.into()))
    };
    let is_all_known = !summary.sites.iter().any(|site| site.keeping.is_unknown);
    let rest = is_all_known.then(|| {
        format!("; at most {} at once; {} freed", bytes(summary.peak.into()), told(&summary.freed))
    });
    let text = format!("{} in use{}", told(&summary.live), rest.unwrap_or_default());
    page.prose("HEAP", Ink::Plain, &text);
    if summary.mapped > 0 {
        let (mapped, live) =
            (quantity::bytes(summary.mapped), quantity::bytes(summary.mapped_live));
        page.prose("MAPPED", Ink::Plain, &format!("{mapped} of pages, {live} of them still"));
    }
}

fn write_sites(summary: &Summary, page: &mut Page) {
    if summary.sites.is_empty() {
        return page.line(["nothing is in use".into()]);
    }
    let mut table = Table::new([
        Column::right("in use"),
        Column::right("part"),
        Column::drawing(),
        Column::right("allocated").spare(),
        Column::right("freed"),
        Column::left("where"),
    ]);
    for (number, site) in summary.sites.iter().enumerate() {
        let cells: [Cell; 6] = [
            Unit::Bytes.show(site.live.bytes.into()).into(),
            percentage(site.share.into()).into(),
            Span::new(Ink::More, bar(site.share.value, BAR)).into(),
            Unit::Bytes.show(site.allocated.bytes.into()).into(),
            site.keeping.words().into(),
            Span::new(Ink::Bold, &site.place).into(),
        ];
        table.row(cells);
        if number < WITH_CALLERS && !site.callers.is_empty() {
            table.callers(site.callers.iter().cloned());
        }
    }
    table.write(page);
    if summary.more_sites > 0 {
        let places = if summary.more_sites == 1 { "place" } else { "places" };
        let text = format!("{} more {places} (--view sites)", summary.more_sites);
        page.line([Span::new(Ink::Dim, text)]);
    }
}

/// The types that its code allocates.
fn write_types(summary: &Summary, page: &mut Page) {
    if !summary.types.iter().any(|row| row.class.is_some()) {
        return;
    }
    page.gap();
    let mut table = Table::new([
        Column::right("in use"),
        Column::right("allocated").spare(),
        Column::left("type, as the code of the sampled stacks states it"),
    ]);
    for row in summary.types.iter().take(TYPES) {
        let class = row.class.as_deref().unwrap_or("?");
        let cells: [Cell; 3] = [
            quantity::bytes(row.live_bytes).into(),
            quantity::bytes(row.allocated_bytes).into(),
            Span::new(Ink::Bold, class).into(),
        ];
        table.row(cells);
    }
    table.write(page);
    if summary.types.len() > TYPES {
        let text = format!("{} more types (--json)", summary.types.len() - TYPES);
        page.line([Span::new(Ink::Dim, text)]);
    }
}

/// The places that mapped what is still mapped.
fn write_mapped(summary: &Summary, page: &mut Page) {
    let live = || summary.mapped_sites.iter().filter(|site| site.live > 0);
    if live().next().is_none() {
        return;
    }
    page.gap();
    let mut table = Table::new([
        Column::right("still mapped"),
        Column::right("mapped").spare(),
        Column::right("unmapped"),
        Column::left("where"),
    ]);
    for (number, site) in live().enumerate() {
        table.row([
            quantity::bytes(site.live).into(),
            quantity::bytes(site.mapped).into(),
            site.unmapped().into(),
            Span::new(Ink::Bold, mapped_place(site)),
        ]);
        if number == 0 && !site.callers.is_empty() {
            table.callers(site.callers.iter().cloned());
        }
    }
    table.write(page);
}

fn mapped_place(site: &MappedSite) -> String {
    let by = if site.by.is_empty() { String::new() } else { format!("{}, for ", site.by) };
    let kinds = site.kinds.join(", ");
    let kinds = if kinds.is_empty() { kinds } else { format!(" ({kinds})") };
    format!("{by}{}{kinds}", site.place)
}

/// Whose memory it is.
pub fn write_title(page: &mut Page, ledger: &Ledger) {
    let about = &ledger.about;
    let command =
        if about.command.is_empty() { String::new() } else { format!(" ({})", about.command) };
    let time = clock(Duration::from_millis(about.lasted_ms));
    page.line([format!("process {}{command}, looked at for {time}", about.pid).into()]);
    for part in &about.part {
        page.prose("ONLY", Ink::Bold, part);
    }
    page.gap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn text(width: Option<usize>, is_coloured: bool) -> String {
        let mut page = Page::new(width, is_coloured);
        write(&Summary::new(&sample::ledger()), &mut page);
        page.finish()
    }

    const WIDE: &str = "\
VERDICT   Grows by 3.1 KiB/s, all of it by make_node (list.c:12), called from grow_list (list.c:40); 33 % of what was allocated there was freed. Of 1.2 MiB allocated in 20.0 s, 102.5 KiB are in use; +51.2 KiB came in the second half. Resident memory grew by 195.3 KiB to 9.7 MiB. main (main.c:7) does not grow: 40.0 KiB in 10 blocks, of the first half. work<int>(std::string const&) (work.cc:99) allocates most, 54.7 KiB/s, and all of it was freed. Blocks that live for longer than 20.0 s look the same.
HEAP      102.5 KiB in 1 010 blocks in use; at most 115.8 KiB at once; 1.1 MiB in 70 500 blocks freed
MAPPED    1.0 MiB of pages, 512.0 KiB of them still
COURSE    ▁▁▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇██ in use

  in use  part           allocated  freed  where
62.5 KiB  61 %  ██████▏   93.8 KiB   33 %  make_node (list.c:12)
                                           from grow_list (list.c:40) < main (main.c:7)
40.0 KiB  39 %  ███▉      40.0 KiB  never  main (main.c:7)

still mapped   mapped  unmapped  where
   512.0 KiB  1.0 MiB      50 %  libc.so.6, for main (main.c:7)

TEMPORARY 91 % of all blocks lived for less than 1 ms; most of these: work<int>(std::string const&) (work.cc:99)
NOT SEEN  blocks older than the attach are not seen, nor that they are freed
ACCURACY  every block is recorded: 71 510 of them; numbers are exact
";

    #[test]
    fn one_screen_tells_it_all() {
        assert_eq!(text(None, false), WIDE);
    }

    #[test]
    fn a_narrow_terminal_has_no_line_too_long() {
        let text = text(Some(60), false);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(text.contains("62.5 KiB  61 %"), "{text}");
    }

    #[test]
    fn colours_change_nothing_else() {
        let coloured = text(None, true);
        assert!(coloured.contains("\x1b[1mVERDICT\x1b[0m"), "{coloured:?}");
        let mut plain = String::new();
        for (number, piece) in coloured.split('\x1b').enumerate() {
            plain.push_str(if number == 0 { piece } else { piece.split_once('m').unwrap().1 });
        }
        assert_eq!(plain, WIDE);
    }
}
