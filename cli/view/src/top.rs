//! Functions: what each allocated itself (flat), and what everything did that it called (cum).

use std::collections::HashMap;

use serde::Serialize;

use super::{
    page::{Ink, Page, Span},
    sites::{figure_cells, figure_columns, write_more, write_total},
    table::{Cell, Column, Table},
};
use heapattach_ledger::{Memory, Metric};
use heapattach_profile::Estimate;
use heapattach_verdict::{
    figure::{Unit, percentage},
    place::{Place, Places},
    subject::{Ask, Subject, own_calls},
    weight::{Figures, Weight},
};

/// The functions.
#[derive(Clone, Debug, Serialize)]
pub struct Top {
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
    pub functions: Vec<FunctionRow>,
    /// Functions that are not listed.
    pub more: usize,
}

/// One function.
#[derive(Clone, Debug, Serialize)]
pub struct FunctionRow {
    /// In words.
    pub words: String,
    /// As it is.
    #[serde(flatten)]
    pub place: Place,
    /// With everything it called.
    pub with_calls: Figures,
    /// What it caused itself.
    pub own: Figures,
    /// The part of all that it and those before it caused themselves.
    pub sum: f64,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    own: Weight,
    all: Weight,
}

impl Top {
    /// Of a subject. Those that allocated most themselves come first, or with all that they called.
    pub fn new(subject: &Subject<'_>, ask: &Ask) -> Self {
        let mut places = Places::default();
        let mut sums: HashMap<u32, Sums> = HashMap::new();
        let mut seen = Vec::new();
        for (side, ledger) in subject.sides() {
            let (numbers, unknown) = (places.of(ledger), places.unknown());
            for row in &ledger.rows {
                let sum = &row.sum(ask.metric);
                let calls = own_calls(ledger, row.stack);
                seen.clear();
                seen.extend(calls.map(|(function, _)| numbers[function as usize]));
                let own = seen.first().copied().unwrap_or(unknown);
                sums.entry(own).or_default().own.add(side, sum);
                seen.push(own);
                // A function that calls itself is one function.
                seen.sort_unstable();
                seen.dedup();
                seen.iter().for_each(|at| sums.entry(*at).or_default().all.add(side, sum));
            }
        }
        let is_change = subject.base.is_some();
        let rank =
            |sums: &Sums| (sums.own.rank(ask.unit, is_change), sums.all.rank(ask.unit, is_change));
        let mut rows: Vec<_> =
            sums.into_iter().filter(|(_, sums)| !sums.all.is_nothing()).collect();
        rows.sort_by(|(a, one), (b, other)| {
            let (one, other) = (rank(one), rank(other));
            let by_own = other.0.total_cmp(&one.0);
            let by_all = other.1.total_cmp(&one.1);
            let by_both = if ask.cum { by_all.then(by_own) } else { by_own.then(by_all) };
            by_both.then_with(|| places.get(*a).cmp(places.get(*b)))
        });
        let more = rows.len().saturating_sub(ask.limit);
        rows.truncate(ask.limit);
        let total = subject.total(ask.metric);
        let told = |weight: &Weight| weight.figures(&total, ask.unit, is_change);
        let mut sum = 0.0;
        let functions = rows.into_iter().map(|(at, sums)| {
            let place = places.get(at).clone();
            let (with_calls, own) = (told(&sums.all), told(&sums.own));
            sum += own.share.value;
            FunctionRow { words: place.words(), place, with_calls, own, sum: sum.min(1.0) }
        });
        let functions = functions.collect();
        Self {
            metric: ask.metric,
            memory: ask.memory,
            unit: ask.unit,
            total: told(&total),
            functions,
            more,
        }
    }

    /// As text.
    pub fn write(&self, page: &mut Page) {
        write_total(page, (self.metric, self.memory), &self.total, self.unit);
        page.gap();
        let is_change = self.total.change.is_some();
        let mut columns = match is_change {
            true => figure_columns((self.metric, self.memory), is_change),
            // As pprof has them.
            false => vec![
                Column::right("flat"),
                Column::right("flat%"),
                Column::right("sum%"),
                Column::right("cum"),
                Column::right("cum%"),
            ],
        };
        columns.push(Column::left("function"));
        let mut table = Table::new(columns);
        for row in &self.functions {
            let mut cells = match is_change {
                true => figure_cells(&row.own, self.unit),
                false => self.cells(row),
            };
            cells.push(Span::new(Ink::Bold, &row.words).into());
            table.row(cells);
        }
        table.write(page);
        write_more(page, self.more, "functions");
    }

    fn cells(&self, row: &FunctionRow) -> Vec<Cell> {
        let figure = |figures: &Figures| self.unit.show(self.unit.of_amount(&figures.amount));
        let sum = Estimate { value: row.sum, low: row.sum, high: row.sum };
        vec![
            figure(&row.own).into(),
            percentage(row.own.share.into()).into(),
            percentage(sum).into(),
            figure(&row.with_calls).into(),
            percentage(row.with_calls.share.into()).into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn a_function_has_its_own_and_what_its_calls_asked_for() {
        let ledger = sample::ledger();
        let mut page = Page::new(None, false);
        Top::new(&Subject::of(&ledger), &Ask::default()).write(&mut page);
        let expected = "\
ALL       in use: 102.5 KiB in 1 010 blocks

    flat  flat%   sum%        cum   cum%  function
62.5 KiB   61 %   61 %   62.5 KiB   61 %  make_node (list.c)
40.0 KiB   39 %  100 %  102.5 KiB  100 %  main (main.c)
     0 B    0 %  100 %   62.5 KiB   61 %  grow_list (list.c)
";
        assert_eq!(page.finish(), expected);
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(0, |stack| stack.locations.push(2));
        let top = Top::new(&Subject::of(&ledger), &Ask::default());
        let main = top.functions.iter().find(|row| row.place.function == "main").unwrap();
        assert_eq!(main.with_calls.amount.bytes, top.total.amount.bytes);
        let own: f64 = top.functions.iter().map(|row| row.own.amount.bytes.value).sum();
        assert_eq!(own, top.total.amount.bytes.value);
    }
}
