//! One screen: what can be said, who holds memory, how much of it to believe, and what to do next.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    bar::{bar, sparkline},
    doubt,
    figure::{blocks, bytes, clock, percent},
    page::{Ink, Page, Span},
    subject::{Ask, Subject},
    table::{Column, Table},
    verdict::Verdict,
    weight::share,
};
use crate::{
    gaps,
    ledger::{Ledger, Metric},
    profile::Sum,
    quantity,
    site_report::{Amount, Range},
};

/// Sites of one screen, and those told with callers; blind spots are told shortly, too.
const SITES: usize = 8;
const WITH_CALLERS: usize = 3;
const CALLERS: usize = 4;
const BLIND: usize = 4;
/// Columns of a bar, and moments of the course that are kept to draw it.
const BAR: usize = 10;
const COURSE: usize = 60;

/// Everything on that screen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// What can be said for certain.
    pub verdict: Verdict,
    /// Asked for since the attach, given back of that, and held.
    pub allocated: Amount,
    /// See above.
    pub freed: Amount,
    /// See above.
    pub live: Amount,
    /// The most bytes that were held at once.
    pub peak: Range,
    /// Bytes of pages mapped since the attach, and those still mapped.
    pub mapped: u64,
    /// See above.
    pub mapped_live: u64,
    /// Those that hold most.
    pub sites: Vec<SummarySite>,
    /// Sites that are not listed.
    pub more_sites: usize,
    /// The part of all blocks that lived for less than so long.
    pub temporary: Range,
    /// See above.
    pub temporary_ms: u64,
    /// Whoever asked for most of these, in words; empty if nobody did.
    pub temporary_by: String,
    /// Bytes held in the course of time.
    pub course: Vec<f64>,
    /// What is missing.
    pub lost: Vec<String>,
    /// What could not be seen.
    pub blind: Vec<String>,
    /// How exact the numbers are.
    pub accuracy: String,
}

/// One place that asks for memory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SummarySite {
    /// In words.
    pub place: String,
    /// Who called, innermost first.
    pub callers: Vec<String>,
    /// What it holds.
    pub live: Amount,
    /// Its part of all bytes held.
    pub share: Range,
    /// What it asked for since the attach.
    pub allocated: Amount,
}

impl Summary {
    /// Of a ledger.
    pub fn new(ledger: &Ledger) -> Self {
        let subject = Subject::of(ledger);
        let ask = Ask { limit: SITES, ..Ask::default() };
        let mut sites = subject.sites(&ask);
        let sum = |site: &super::subject::Site, metric| -> Sum {
            site.weights[metric as usize].now.clone()
        };
        let temporary = sites.iter().max_by(|a, b| {
            let count = |site| sum(site, Metric::Temporary).measure().count.value;
            count(a).total_cmp(&count(b))
        });
        let temporary_by = temporary
            .filter(|site| sum(site, Metric::Temporary).records() > 0)
            .map_or(String::new(), |site| site.place.words());
        sites.retain(|site| sum(site, Metric::Live).records() > 0);
        let held: Vec<&Sum> =
            sites.iter().map(|site| &site.weights[Metric::Live as usize].now).collect();
        let verdict = Verdict::new(ledger, &held);
        let measure = |metric| ledger.total.measure(metric);
        let live = measure(Metric::Live);
        let rows = sites.iter().take(SITES).map(|site| SummarySite {
            place: site.place.words(),
            callers: site.callers.iter().take(CALLERS).map(|place| place.words()).collect(),
            share: share(sum(site, Metric::Live).measure().bytes, live.bytes).into(),
            live: sum(site, Metric::Live).measure().into(),
            allocated: sum(site, Metric::Allocated).measure().into(),
        });
        Self {
            verdict,
            allocated: measure(Metric::Allocated).into(),
            freed: measure(Metric::Freed).into(),
            live: live.into(),
            peak: ledger.peak.into(),
            mapped: ledger.total.mapped,
            mapped_live: ledger.total.mapped_live,
            more_sites: sites.len().saturating_sub(SITES),
            sites: rows.collect(),
            temporary: share(measure(Metric::Temporary).count, measure(Metric::Allocated).count)
                .into(),
            temporary_ms: ledger.about.temporary_ms,
            temporary_by,
            course: course(ledger),
            lost: gaps::lost(&ledger.about.loss),
            blind: doubt::blind(&ledger.about),
            accuracy: doubt::accuracy(ledger),
        }
    }

    /// As text, but for what only the caller knows: files, and what to do next.
    pub fn write(&self, page: &mut Page) {
        page.prose("VERDICT", Ink::Bold, &self.verdict.text);
        self.write_sums(page);
        if !self.course.is_empty() {
            let room = page.width().map_or(COURSE, |width| width / 2).min(COURSE);
            let drawn = sparkline(&self.course, room);
            let label = Span::new(Ink::Bold, "COURSE    ");
            page.line([label, Span::new(Ink::More, drawn), Span::new(Ink::Dim, " still held")]);
        }
        page.gap();
        self.write_sites(page);
        page.gap();
        if !self.temporary_by.is_empty() {
            let text = format!(
                "{} of all blocks lived for less than {} ms; most of these: {}",
                percent(self.temporary.into()),
                self.temporary_ms,
                self.temporary_by
            );
            page.prose("TEMPORARY", Ink::Plain, &text);
        }
        for (number, lost) in self.lost.iter().enumerate() {
            page.prose(if number == 0 { "LOST" } else { "" }, Ink::Warning, lost);
        }
        for (number, blind) in self.blind.iter().take(BLIND).enumerate() {
            page.prose(if number == 0 { "NOT SEEN" } else { "" }, Ink::Plain, blind);
        }
        if self.blind.len() > BLIND {
            let more = format!("and {} more (--json)", self.blind.len() - BLIND);
            page.prose("", Ink::Dim, &more);
        }
        page.prose("ACCURACY", Ink::Plain, &self.accuracy);
    }

    fn write_sums(&self, page: &mut Page) {
        let told = |amount: &Amount| {
            format!("{} in {} blocks", bytes(amount.bytes.into()), blocks(amount.blocks.into()))
        };
        let text = format!(
            "{} still held; at most {} at once; {} given back",
            told(&self.live),
            bytes(self.peak.into()),
            told(&self.freed)
        );
        page.prose("HEAP", Ink::Plain, &text);
        if self.mapped > 0 {
            let (mapped, live) = (quantity::bytes(self.mapped), quantity::bytes(self.mapped_live));
            page.prose("MAPPED", Ink::Plain, &format!("{mapped} of pages, {live} of them still"));
        }
    }

    fn write_sites(&self, page: &mut Page) {
        if self.sites.is_empty() {
            return page.line(["nothing is held".into()]);
        }
        let mut table = Table::new([
            Column::right("still held"),
            Column::right("part"),
            Column::left("").spare(),
            Column::right("allocated").spare(),
            Column::left("who"),
        ]);
        for (number, site) in self.sites.iter().enumerate() {
            table.row([
                bytes(site.live.bytes.into()).into(),
                percent(site.share.into()).into(),
                Span::new(Ink::More, bar(site.share.value, BAR)),
                bytes(site.allocated.bytes.into()).into(),
                Span::new(Ink::Bold, &site.place),
            ]);
            if number < WITH_CALLERS && !site.callers.is_empty() {
                table.callers(site.callers.iter().cloned());
            }
        }
        table.write(page);
        if self.more_sites > 0 {
            let places = if self.more_sites == 1 { "place" } else { "places" };
            let text = format!("{} more {places} (--view sites)", self.more_sites);
            page.line([Span::new(Ink::Dim, text)]);
        }
    }
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

fn course(ledger: &Ledger) -> Vec<f64> {
    let moments = &ledger.moments;
    let columns = moments.len().min(COURSE);
    (0..columns).map(|at| moments[(at * moments.len()) / columns].live).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sample;

    fn text(width: Option<usize>, is_coloured: bool) -> String {
        let mut page = Page::new(width, is_coloured);
        Summary::new(&sample::ledger()).write(&mut page);
        page.finish()
    }

    const WIDE: &str = "\
VERDICT   Grew: of 1.2 MiB asked for in 20.0 s, 102.5 KiB are still held; +51.2 KiB came in the second half. The first 2 places hold 100 % of it. Resident memory grew by 195.3 KiB to 9.7 MiB. What is kept for longer than 20.0 s looks the same.
HEAP      102.5 KiB in 1 010 blocks still held; at most 115.8 KiB at once; 1.1 MiB in 70 500 blocks given back
MAPPED    1.0 MiB of pages, 512.0 KiB of them still
COURSE    ▁▁▁▁▂▂▂▃▃▄▄▄▅▅▆▆▆▇▇██ still held

still held  part           allocated  who
  62.5 KiB  61 %  ██████▏   93.8 KiB  make_node (list.c:12)
                                      from grow_list (list.c:40) < main (main.c:7)
  40.0 KiB  39 %  ███▉      40.0 KiB  main (main.c:7)

TEMPORARY 91 % of all blocks lived for less than 1 ms; most of these: work<int>(std::string const&) (work.cc:99)
NOT SEEN  blocks older than the attach are not seen, nor that they are given back
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
        assert!(text.contains("  62.5 KiB  61 %"), "{text}");
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

    #[test]
    fn a_summary_travels_as_json() {
        let summary = Summary::new(&sample::ledger());
        let text = serde_json::to_string(&summary).unwrap();
        let again: Summary = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}
