//! Which threads allocated memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    page::{Ink, Page, Span},
    sites::{figure_cells, figure_columns, title, write_more, write_total},
    table::{Column, Table},
};
use heapattach_ledger::{Memory, Metric, Thread};
use heapattach_profile::{Amount, Sum};
use heapattach_verdict::{
    figure::Unit,
    subject::{Ask, Subject},
    weight::{Figures, Weight},
};

/// The threads.
#[derive(Clone, Debug, Serialize)]
pub struct Threads {
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
    pub threads: Vec<ThreadRow>,
    /// Threads that are not listed.
    pub more: usize,
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadRow {
    /// 0 stands for all that are not told apart.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// The numbers of the thread.
    #[serde(flatten)]
    pub figures: Figures,
    /// What it allocated since the attach.
    pub allocated: Amount,
    /// What was freed of that.
    pub freed: Amount,
    /// What was freed very soon.
    pub temporary: Amount,
}

impl Threads {
    /// Of a subject; threads are not compared.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let ledger = subject.now;
        let mut sums: BTreeMap<u32, [Sum; 5]> = BTreeMap::new();
        for row in &ledger.rows {
            let own = sums.entry(row.thread).or_default();
            own.iter_mut().zip(&row.sums()).for_each(|(sum, more)| sum.merge(more));
        }
        let value = |sums: &[Sum; 5]| ask.unit.of(&sums[ask.metric as usize].measure()).value;
        let mut rows: Vec<_> = sums.into_iter().collect();
        rows.sort_by(|(_, a), (_, b)| value(b).total_cmp(&value(a)));
        let more = rows.len().saturating_sub(ask.limit);
        rows.truncate(ask.limit);
        let total = Subject::of(ledger).total(ask.metric);
        let told =
            |sum: Sum| Weight { now: sum, ..Weight::default() }.figures(&total, ask.unit, false);
        let threads = rows.into_iter().map(|(number, sums)| {
            let Thread { tid, name } = ledger.threads[number as usize].clone();
            let amount = |metric: Metric| sums[metric as usize].measure().into();
            ThreadRow {
                tid,
                name,
                allocated: amount(Metric::Allocated),
                freed: amount(Metric::Freed),
                temporary: amount(Metric::Temporary),
                figures: told(sums[ask.metric as usize].clone()),
            }
        });
        Self {
            metric: ask.metric,
            memory: ask.memory,
            unit: ask.unit,
            threads: threads.collect(),
            total: told(total.now.clone()),
            more,
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        page.gap();
        let mut columns = figure_columns((self.metric, self.memory), false);
        let others = [Metric::Allocated, Metric::Freed, Metric::Temporary];
        let others = others.into_iter().filter(|metric| *metric != self.metric);
        columns.extend(
            others.clone().map(|metric| Column::right(title((metric, self.memory))).spare()),
        );
        columns.push(Column::left("thread"));
        let mut table = Table::new(columns);
        for row in &self.threads {
            let mut cells = figure_cells(&row.figures, self.unit);
            cells.extend(others.clone().map(|metric| {
                let amount = match metric {
                    Metric::Allocated => &row.allocated,
                    Metric::Freed => &row.freed,
                    _ => &row.temporary,
                };
                self.unit.show(self.unit.of_amount(amount)).into()
            }));
            cells.push(Span::new(Ink::Bold, name(row.tid, &row.name)).into());
            table.row(cells);
        }
        table.write(page);
        write_more(page, self.more, "threads");
    }
}

fn name(tid: i32, name: &str) -> String {
    match (tid, name) {
        (0, "") => "[threads that are not told apart]".to_owned(),
        (0, name) => name.to_owned(),
        (tid, "") => tid.to_string(),
        (tid, name) => format!("{name} ({tid})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn threads_are_told_with_what_they_asked_for_and_gave_back() {
        let ledger = sample::ledger();
        let ask = Ask { metric: Metric::Allocated, ..Ask::default() };
        let mut page = Page::new(None, false);
        Threads::new(&Subject::of(&ledger), &ask).write(&mut page);
        let expected = "\
ALL       allocated: 1.2 MiB in 71 510 blocks

allocated  part                freed   temporary  thread
  1.1 MiB  89 %  ████████▉   1.1 MiB  1015.6 KiB  worker (4711)
133.8 KiB  11 %  █▏         31.2 KiB     6.2 KiB  [threads that are not told apart]
";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn threads_add_up_to_the_ledger() {
        let ledger = sample::ledger();
        for metric in Metric::ALL {
            let ask = Ask { metric, unit: Unit::Blocks, ..Ask::default() };
            let threads = Threads::new(&Subject::of(&ledger), &ask);
            let sum: f64 = threads.threads.iter().map(|row| row.figures.amount.blocks.value).sum();
            assert_eq!(sum, ledger.total.measure(metric).count.value, "{metric:?}");
        }
    }
}
