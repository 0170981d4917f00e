//! How many blocks there are of each magnitude: the views `sizes` and `lifetimes`.

use serde::Serialize;

use super::{
    bar::bar,
    figure::{microseconds, percent, whole},
    page::{Ink, Page, Span},
    table::{Column, Table},
};
use crate::{
    ledger::{Histogram, Ledger},
    profile::Estimate,
    quantity,
};

/// Columns of a bar.
const BAR: usize = 30;

/// What is put into classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// The blocks handed out, by their size in bytes.
    Size,
    /// The blocks given back, by how many microseconds they lived.
    Lifetime,
}

/// Blocks by magnitude.
#[derive(Clone, Debug, Serialize)]
pub struct Classes {
    /// What they are sorted by.
    pub by: Measured,
    /// All of them.
    pub blocks: f64,
    /// Whether the numbers are estimates; these have no intervals.
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
    /// How many.
    pub blocks: f64,
}

impl Classes {
    /// Of a ledger.
    pub fn new(ledger: &Ledger, by: Measured) -> Self {
        let histogram = match by {
            Measured::Size => &ledger.total.sizes,
            Measured::Lifetime => &ledger.total.lifetimes,
        };
        let numbers = histogram.buckets().into_iter().map(|blocks| blocks.max(0.0));
        let mut classes: Vec<_> = numbers
            .enumerate()
            .map(|(bucket, blocks)| {
                let (from, to) = Histogram::range(bucket);
                Class { from, to, blocks }
            })
            .skip_while(|class| class.blocks == 0.0)
            .collect();
        classes
            .truncate(classes.iter().rposition(|class| class.blocks > 0.0).map_or(0, |at| at + 1));
        let blocks = classes.iter().map(|class| class.blocks).sum();
        Self { by, blocks, is_estimated: ledger.about.every > 1, classes }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        let what = match self.by {
            Measured::Size => "blocks asked for since the attach, by their size",
            Measured::Lifetime => "blocks given back, by how long they lived",
        };
        let about = if self.is_estimated { "about " } else { "" };
        let number = quantity::count(whole(self.blocks));
        page.prose("ALL", Ink::Plain, &format!("{about}{number} {what}"));
        if self.is_estimated {
            page.prose("", Ink::Dim, "numbers are estimates, without intervals");
        }
        page.gap();
        let most = self.classes.iter().map(|class| class.blocks).fold(0.0, f64::max);
        let mut table = Table::new([
            Column::right("from"),
            Column::right("to"),
            Column::right("blocks"),
            Column::right("part"),
            Column::left(""),
        ]);
        for class in &self.classes {
            let part = class.blocks / self.blocks;
            let part = Estimate { value: part, low: part, high: part };
            table.row([
                self.measure(class.from).into(),
                self.measure(class.to).into(),
                format!("{about}{}", quantity::count(whole(class.blocks))).into(),
                percent(part).into(),
                Span::new(Ink::More, bar(class.blocks / most, BAR)),
            ]);
        }
        table.write(page);
    }

    fn measure(&self, number: u64) -> String {
        match self.by {
            Measured::Size => quantity::bytes(number),
            Measured::Lifetime => microseconds(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Metric, sample};

    #[test]
    fn sizes_are_told_from_small_to_large() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Classes::new(&ledger, Measured::Size).write(&mut page);
        let text = page.finish();
        let first = "   from       to  blocks   part\n   16 B     31 B  70 000   98 %  ███";
        assert!(text.contains(first), "{text}");
        assert!(text.ends_with("\n4.0 KiB  8.0 KiB      10  0.1 %\n"), "{text}");
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
    fn nothing_has_no_classes() {
        let mut page = Page::new(Some(60), false);
        let classes = Classes::new(&Ledger::default(), Measured::Lifetime);
        classes.write(&mut page);
        assert!(classes.classes.is_empty());
        assert!(page.finish().starts_with("ALL       0 blocks given back"));
    }
}
