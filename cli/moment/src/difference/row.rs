//! What a thing had at each moment, and things of one kind by their growth.

use std::{cmp::Reverse, collections::HashMap};

use heapattach_report::CensusReport;
use heapattach_verdict::moments::Steadiness;
use serde::Serialize;

use super::lists::Items;

/// Rows that are kept of a kind, those that changed most.
const MOST: usize = 500;

/// A thing.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// Its bytes at each moment.
    pub bytes: Vec<u64>,
    /// Its blocks at each moment, where they are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<u64>,
    /// From the first to the last.
    pub change: Change,
    /// How steadily its bytes grew.
    pub growth: Steadiness,
}

/// A difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Of bytes.
    pub bytes: i64,
    /// Of blocks, where they are counted.
    pub blocks: Option<i64>,
}

/// Things of one kind.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// Why they are not compared.
    pub unknown: Option<String>,
    /// Those that changed, what grew most first.
    pub rows: Vec<Row>,
    /// Rows that found no room.
    pub more: u64,
}

impl Row {
    pub(super) fn of(name: String, amounts: Vec<(u64, Option<u64>)>) -> Self {
        let bytes: Vec<u64> = amounts.iter().map(|(bytes, _)| *bytes).collect();
        let blocks: Vec<u64> = amounts.iter().filter_map(|(_, blocks)| *blocks).collect();
        let blocks = if blocks.len() == bytes.len() { blocks } else { Vec::new() };
        let change = Change {
            bytes: difference(&bytes),
            blocks: (!blocks.is_empty()).then(|| difference(&blocks)),
        };
        let growth = match change.bytes > 0 {
            false => Steadiness::No,
            true if bytes.windows(2).all(|pair| pair[0] < pair[1]) => Steadiness::EveryStep,
            true => Steadiness::SomeSteps,
        };
        Self { name, bytes, blocks, change, growth }
    }

    fn has_changed(&self) -> bool {
        let differs = |all: &[u64]| all.windows(2).any(|pair| pair[0] != pair[1]);
        differs(&self.bytes) || differs(&self.blocks)
    }
}

fn difference(all: &[u64]) -> i64 {
    let (first, last) = (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0));
    let size = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
    size(last).saturating_sub(size(first))
}

impl Section {
    pub(super) fn of(
        all: &[&CensusReport],
        names: &[&str],
        list: &dyn Fn(&CensusReport) -> Items,
    ) -> Self {
        let mut rows: HashMap<String, Vec<(u64, Option<u64>)>> = HashMap::new();
        for (number, (one, name)) in all.iter().zip(names).enumerate() {
            let items = match list(one) {
                Ok(items) => items,
                Err(why) => {
                    return Self { unknown: Some(format!("{name}: {why}")), ..Self::default() };
                }
            };
            for (item, bytes, blocks) in items {
                let new = || vec![(0, blocks.map(|_| 0)); all.len()];
                let own = &mut rows.entry(item).or_insert_with(new)[number];
                own.0 = own.0.saturating_add(bytes);
                own.1 = own.1.map(|sum| sum.saturating_add(blocks.unwrap_or(0)));
            }
        }
        let rows = rows.into_iter().map(|(name, amounts)| Row::of(name, amounts));
        let mut rows: Vec<Row> = rows.filter(Row::has_changed).collect();
        rows.sort_by(|a, b| {
            let key = |row: &Row| (Reverse(row.change.bytes.unsigned_abs()), row.name.clone());
            key(a).cmp(&key(b))
        });
        let more = rows.len().saturating_sub(MOST) as u64;
        rows.truncate(MOST);
        rows.sort_by_key(|row| (row.growth, Reverse(row.change.bytes)));
        // What grew in every step is named first only where there is more than one.
        if all.len() == 2 {
            rows.sort_by_key(|row| Reverse(row.change.bytes));
        }
        Self { unknown: None, rows, more }
    }
}
