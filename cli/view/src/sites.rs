//! What allocated memory: the view `sites`, and those of one measure, `peak` and `temporary`.

use serde::Serialize;

use super::{
    bar::bar,
    mapped::Mapped,
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};
use heapattach_ledger::{Memory, Metric};
use heapattach_profile::Amount;
use heapattach_verdict::{
    figure::{Unit, blocks, bytes, percentage},
    keeping::Keeping,
    place::Place,
    subject::{Ask, Subject},
    weight::{Figures, Weight},
};

/// Sites that are told with their callers, and how many of these.
const WITH_CALLERS: usize = 5;
const CALLERS: usize = 8;
/// Columns of a bar.
const BAR: usize = 10;

/// What allocated memory.
#[derive(Clone, Debug, Serialize)]
pub struct Sites {
    /// What is measured.
    pub metric: Metric,
    /// Of which memory; blocks, if that was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// In what the order is.
    pub unit: Unit,
    /// All of it.
    pub total: Figures,
    /// The most important first.
    pub sites: Vec<SiteRow>,
    /// Sites that are not listed.
    pub more: usize,
}

/// One of them.
#[derive(Clone, Debug, Serialize)]
pub struct SiteRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// The numbers of the place.
    #[serde(flatten)]
    pub figures: Figures,
    /// What it allocated since the attach.
    pub allocated: Amount,
    /// What became of that.
    pub keeping: Keeping,
    /// The calls behind it, innermost first, of its heaviest stack.
    pub callers: Vec<Place>,
}

impl Sites {
    /// Of a subject.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let is_change = subject.base.is_some();
        let total = subject.total(ask.metric);
        let told = |weight: &Weight| weight.figures(&total, ask.unit, is_change);
        let mut sites = subject.sites(ask);
        sites.retain(|site| !site.weights[ask.metric as usize].is_nothing());
        let more = sites.len().saturating_sub(ask.limit);
        sites.truncate(ask.limit);
        let rows = sites.into_iter().map(|site| SiteRow {
            words: site.place.words(),
            figures: told(&site.weights[ask.metric as usize]),
            allocated: site.weights[Metric::Allocated as usize].now.measure().into(),
            keeping: Keeping::of(&site),
            place: site.place,
            callers: site.callers,
        });
        Self {
            metric: ask.metric,
            memory: ask.memory,
            unit: ask.unit,
            total: told(&total),
            sites: rows.collect(),
            more,
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        page.gap();
        if self.sites.is_empty() {
            return page.line(["none".into()]);
        }
        let mut table =
            Table::new(columns((self.metric, self.memory), self.total.change.is_some()));
        for (number, site) in self.sites.iter().enumerate() {
            table.row(self.cells(site));
            if number < WITH_CALLERS && !site.callers.is_empty() {
                let callers = site.callers.iter().take(CALLERS).map(Place::words);
                let more = (site.callers.len() > CALLERS).then(|| "...".to_owned());
                table.callers(callers.chain(more));
            }
        }
        table.write(page);
        write_more(page, self.more, "places");
    }

    fn cells(&self, site: &SiteRow) -> Vec<Cell> {
        let mut cells = figure_cells(&site.figures, self.unit);
        if self.metric != Metric::Allocated && site.figures.change.is_none() {
            cells.push(self.unit.show(self.unit.of_amount(&site.allocated)).into());
        }
        if tells_freed(self.metric, site.figures.change.is_some()) {
            cells.push(Span::from(site.keeping.words()).into());
        }
        cells.push(Span::new(Ink::Bold, &site.words).into());
        cells
    }
}

/// Sites as text, and below those of mapped memory where that is to be told.
pub fn write_sites(subject: &Subject<'_>, ask: &Ask, page: &mut Page) {
    Sites::new(subject, ask).write(page);
    if let Some(mapped) = Mapped::beside(subject, ask) {
        page.gap();
        mapped.view(Sites::new).write(page);
    }
}

/// What a metric is called at the head of a column.
pub fn title((metric, memory): (Metric, Option<Memory>)) -> &'static str {
    let is_mapped = matches!(memory, Some(Memory::Mapped | Memory::Own));
    match metric {
        Metric::Live if is_mapped => "still mapped",
        Metric::Allocated if is_mapped => "mapped",
        Metric::Freed if is_mapped => "unmapped",
        Metric::Live => "in use",
        Metric::Allocated => "allocated",
        Metric::Freed => "freed",
        Metric::Peak => "at the peak",
        Metric::Temporary => "temporary",
    }
}

/// Whose it is, where that is not all.
pub fn by(memory: Option<Memory>) -> &'static str {
    if memory == Some(Memory::Own) { " by the program itself" } else { "" }
}

/// What there is a number of.
fn noun(memory: Option<Memory>) -> &'static str {
    match memory {
        None | Some(Memory::Heap) => "blocks",
        Some(Memory::Mapped | Memory::Own) => "pages",
        Some(Memory::All) => "blocks and pages",
    }
}

/// What there is in all.
pub fn write_total(page: &mut Page, of: (Metric, Option<Memory>), total: &Figures, unit: Unit) {
    let words = |amount: &Amount| {
        let (size, number) = (bytes(amount.bytes.into()), blocks(amount.blocks.into()));
        format!("{size} in {number} {}", noun(of.1))
    };
    let mut text = format!("{}{}: {}", title(of), by(of.1), words(&total.amount));
    if let Some(change) = &total.change {
        let difference = unit.show_change(unit.of_amount(&change.change));
        let sure = if change.is_significant { "" } else { ", which may be chance" };
        text = format!("{text}; before: {}; change: {difference}{sure}", words(&change.before));
    }
    page.prose("ALL", Ink::Plain, &text);
}

/// What was left out.
pub fn write_more(page: &mut Page, more: usize, what: &str) {
    if more > 0 {
        let what = if more == 1 { what.trim_end_matches('s') } else { what };
        let text = format!("{more} more {what} (--limit)");
        page.line([Span::new(Ink::Dim, text)]);
    }
}

/// The numbers of a row; [`columns`] are their titles.
pub fn figure_cells(figures: &Figures, unit: Unit) -> Vec<Cell> {
    let now = unit.show(unit.of_amount(&figures.amount));
    let Some(change) = &figures.change else {
        let share = figures.share;
        let drawn = bar(share.value, BAR);
        let drawn = Span::new(Ink::More, drawn);
        return vec![now.into(), percentage(share.into()).into(), drawn.into()];
    };
    let estimate = unit.of_amount(&change.change);
    let (ink, note) = match (change.is_significant, estimate.value > 0.0) {
        (false, _) => (Ink::Dim, "chance"),
        (true, true) => (Ink::More, "more"),
        (true, false) => (Ink::Less, "less"),
    };
    let relative =
        change.relative.map_or("new".to_owned(), |part| format!("{:+.0} %", part * 100.0));
    vec![
        Cell::figure(ink, unit.show_change(estimate)),
        Span::new(ink, if estimate.value == 0.0 { String::new() } else { relative }).into(),
        Span::new(ink, if estimate.value == 0.0 { "same" } else { note }).into(),
        unit.show(unit.of_amount(&change.before)).into(),
        now.into(),
    ]
}

/// The titles of [`figure_cells`].
pub fn figure_columns(of: (Metric, Option<Memory>), is_change: bool) -> Vec<Column> {
    if is_change {
        let (before, now) = (Column::right("before").spare(), Column::right("now").spare());
        return vec![Column::right("change"), Column::right("by"), Column::left(""), before, now];
    }
    vec![Column::right(title(of)), Column::right("part"), Column::drawing()]
}

/// Whether there is a word on how much of it was freed.
fn tells_freed(metric: Metric, is_change: bool) -> bool {
    matches!(metric, Metric::Live | Metric::Allocated) && !is_change
}

fn columns(of: (Metric, Option<Memory>), is_change: bool) -> Vec<Column> {
    let (metric, memory) = of;
    let mut columns = figure_columns(of, is_change);
    if metric != Metric::Allocated && !is_change {
        columns.push(Column::right(title((Metric::Allocated, memory))).spare());
    }
    if tells_freed(metric, is_change) {
        columns.push(Column::right(title((Metric::Freed, memory))));
    }
    columns.push(Column::left("where"));
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    fn text(subject: &Subject<'_>, ask: &Ask, width: Option<usize>) -> String {
        let mut page = Page::new(width, false);
        Sites::new(subject, ask).write(&mut page);
        page.finish()
    }

    #[test]
    fn sites_are_told_with_their_part_and_their_callers() {
        let ledger = sample::ledger();
        let expected = "\
ALL       in use: 102.5 KiB in 1 010 blocks

  in use  part           allocated  freed  where
62.5 KiB  61 %  ██████▏   93.8 KiB   33 %  make_node (list.c:12)
                                           from grow_list (list.c:40) < main (main.c:7)
40.0 KiB  39 %  ███▉      40.0 KiB  never  main (main.c:7)
";
        assert_eq!(text(&Subject::of(&ledger), &Ask::default(), None), expected);
    }

    #[test]
    fn estimates_are_told_with_their_intervals() {
        let mut ledger = sample::ledger();
        ledger.about.every = 4096;
        ledger.total.set(Metric::Live, &Sum::default());
        for (row, blocks) in ledger.rows.iter_mut().zip([100, 7, 0]) {
            row.set(Metric::Live, &Sum::sampled(64, blocks, 4096));
            ledger.total.add(Metric::Live, &row.sum(Metric::Live));
        }
        let told = text(&Subject::of(&ledger), &Ask::default(), Some(100));
        let expected = "\
ALL       in use: 431.4 KiB (355.7 to 518.6 KiB) in 6 902 (5 691 to 8 297) blocks

                        in use               part  allocated  freed  where
403.1 KiB (330.1 to 487.7 KiB)  93 % (87 to 98 %)   93.8 KiB   33 %  make_node (list.c:12)
                                                                     from grow_list < ...
   28.2 KiB (11.9 to 56.1 KiB)    7 % (2 to 15 %)   40.0 KiB  never  main (main.c:7)
";
        assert_eq!(told, expected);
    }

    #[test]
    fn sums_of_sites_are_those_of_the_ledger() {
        let ledger = sample::ledger();
        for metric in Metric::ALL {
            let sites = Sites::new(&Subject::of(&ledger), &Ask { metric, ..Ask::default() });
            let sum: f64 = sites.sites.iter().map(|site| site.figures.amount.bytes.value).sum();
            assert_eq!(sum, ledger.total.measure(metric).bytes.value, "{metric:?}");
        }
    }

    #[test]
    fn sites_are_compared_by_name_whatever_their_lines() {
        let (now, mut base) = (sample::ledger(), sample::ledger());
        base.locations[1].lines.iter_mut().for_each(|line| line.line = Some(1));
        base.rows[0].set(Metric::Live, &Sum::exact(64, 600));
        base.rows.remove(1);
        let subject = Subject { now: &now, base: Some(&base) };
        let told = text(&subject, &Ask::default(), None);
        let row = |name: &str| told.lines().find(|line| line.ends_with(name)).unwrap().to_owned();
        assert!(
            row("  make_node (list.c)").contains("+25.0 KiB  +67 %  more  37.5 KiB  62.5 KiB"),
            "{told}"
        );
        assert!(row("  main (main.c)").contains("+40.0 KiB    new  more"), "{told}");
    }
}
