//! How many blocks there are of each magnitude: the views `sizes` and `lifetimes`.

use serde::Serialize;

use super::{
    bar::bar,
    page::{Ink, Page, Span},
    table::{Cell, Column, Table},
};
use heapattach_ledger::{Histogram, Ledger, Metric};
use heapattach_profile::Estimate;
use heapattach_text::quantity;
use heapattach_verdict::{
    figure::{Unit, blocks, is_exact, microseconds, percentage},
    weight::share,
};

/// Columns of a bar on a page that is so wide, and on others.
const BAR: usize = 30;
const NARROW_BAR: usize = 10;
const WIDE: usize = 100;

/// What is put into classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// The blocks allocated, by their size in bytes.
    Size,
    /// The blocks freed, by how many microseconds they lived.
    Lifetime,
}

/// Blocks by magnitude.
#[derive(Clone, Debug, Serialize)]
pub struct Classes {
    /// What they are sorted by.
    pub by: Measured,
    /// All of them.
    pub blocks: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Whether the numbers are estimates; the intervals of classes are upper bounds.
    pub is_estimated: bool,
    /// From small to large, those between without blocks as well.
    pub classes: Vec<Class>,
}

/// One of the magnitudes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Class {
    /// The least that belongs to it.
    pub from: u64,
    /// The greatest that does.
    pub to: u64,
    /// The number of blocks.
    pub blocks: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Classes {
    /// Of a ledger.
    pub fn new(ledger: &Ledger, by: Measured) -> Self {
        let (estimates, metric) = match by {
            Measured::Size => (heapattach_ledger::sizes(ledger), Metric::Allocated),
            Measured::Lifetime => (heapattach_ledger::lifetimes(ledger), Metric::Freed),
        };
        let class = |(bucket, estimate): (usize, Estimate)| {
            let (from, to) = Histogram::range(bucket);
            Class { from, to, blocks: estimate.value, low: estimate.low, high: estimate.high }
        };
        let classes = estimates.into_iter().enumerate().map(class);
        let mut classes: Vec<_> = classes.skip_while(|class| class.blocks == 0.0).collect();
        if by == Measured::Lifetime {
            join_unmeasured(&mut classes);
        }
        classes
            .truncate(classes.iter().rposition(|class| class.blocks > 0.0).map_or(0, |at| at + 1));
        let Estimate { value: blocks, low, high } = ledger.total.measure(metric).count;
        Self { by, blocks, low, high, is_estimated: ledger.about.every > 1, classes }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let what = match self.by {
            Measured::Size => "blocks allocated since the attach, by their size",
            Measured::Lifetime => "blocks freed, by how long they lived",
        };
        let all = Estimate { value: self.blocks, low: self.low, high: self.high };
        page.prose("ALL", Ink::Plain, &format!("{} {what}", blocks(all)));
        if self.is_estimated {
            let text = "in parentheses: 95 % CI, those of classes rather too wide";
            page.prose("", Ink::Dim, text);
        }
        page.gap();
        let most = self.classes.iter().map(|class| class.blocks).fold(0.0, f64::max);
        let is_wide = page.width().is_none_or(|width| width >= WIDE);
        let columns = if is_wide { BAR } else { NARROW_BAR };
        let mut table = Table::new([
            Column::right("from"),
            Column::right("to"),
            Column::right("blocks"),
            Column::right("part").spare(),
            Column::left(""),
        ]);
        for class in &self.classes {
            let number = Estimate { value: class.blocks, low: class.low, high: class.high };
            let cells: [Cell; 5] = [
                self.measure(class.from).into(),
                self.measure(class.to).into(),
                self.number(number),
                percentage(share(number, all)).into(),
                Span::new(Ink::More, bar(class.blocks / most, columns)).into(),
            ];
            table.row(cells);
        }
        table.write(page);
    }

    /// What no sample tells of may be there.
    fn number(&self, number: Estimate) -> Cell {
        let is_unknown = self.is_estimated && number.value == 0.0 && is_exact(number);
        if is_unknown { "-".into() } else { Unit::Blocks.show(number).into() }
    }

    fn measure(&self, number: u64) -> String {
        match self.by {
            Measured::Size => quantity::bytes(number),
            Measured::Lifetime => microseconds(number),
        }
    }
}

/// A block that came and went between two looks at the rings seems to have lived for no time: all that
/// is known is that it lived shorter than any that was measured.
fn join_unmeasured(classes: &mut Vec<Class>) {
    let Some(first) = classes.first().filter(|class| class.to == 0) else { return };
    let first = *first;
    classes.remove(0);
    let empty = classes.iter().take_while(|class| class.blocks == 0.0).count();
    // Without any other there is nothing to be shorter than.
    let to = classes.get(empty).map_or(0, |next| next.from.saturating_sub(1));
    classes.drain(..empty);
    classes.insert(0, Class { to, ..first });
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    #[test]
    fn sizes_are_told_from_small_to_large() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Classes::new(&ledger, Measured::Size).write(&mut page);
        let text = page.finish();
        let first = "   from       to  blocks    part\n   16 B     31 B  70 000    98 %  ███";
        assert!(text.contains(first), "{text}");
        assert!(text.ends_with("\n4.0 KiB  8.0 KiB      10  <0.1 %\n"), "{text}");
    }

    #[test]
    fn classes_add_up_to_the_ledger() {
        let ledger = sample::ledger();
        for (by, metric) in
            [(Measured::Size, Metric::Allocated), (Measured::Lifetime, Metric::Freed)]
        {
            let classes = Classes::new(&ledger, by);
            assert_eq!(classes.blocks, ledger.total.measure(metric).count.value, "{by:?}");
        }
    }

    #[test]
    fn classes_of_samples_have_intervals() {
        let mut ledger = sample::ledger();
        ledger.about.every = 4096;
        ledger.total.set(Metric::Allocated, &Sum::sampled(16, 273, 4096));
        let mut page = Page::new(Some(80), false);
        Classes::new(&ledger, Measured::Size).write(&mut page);
        let text = page.finish();
        assert!(text.contains("   16 B     31 B  70.0 k (62.1 to 78.7 k)"), "{text}");
        assert!(text.contains("   32 B     63 B             0 (0 to 474)"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn what_lived_for_no_time_lived_shorter_than_what_was_measured() {
        let mut ledger = sample::ledger();
        ledger.total.lifetimes = Histogram::default();
        for (lifetime, blocks) in [(0, 5.0), (9000, 2.0), (40_000, 1.0)] {
            ledger.total.lifetimes.add(lifetime, blocks);
        }
        let classes = Classes::new(&ledger, Measured::Lifetime).classes;
        let ends: Vec<_> = classes.iter().map(|class| (class.from, class.to)).collect();
        assert_eq!(ends, [(0, 8191), (8192, 16_383), (16_384, 32_767), (32_768, 65_535)]);
    }

    #[test]
    fn nothing_has_no_classes() {
        let mut page = Page::new(Some(60), false);
        let classes = Classes::new(&Ledger::default(), Measured::Lifetime);
        classes.write(&mut page);
        assert!(classes.classes.is_empty());
        assert!(page.finish().starts_with("ALL       0 blocks freed"));
    }
}
