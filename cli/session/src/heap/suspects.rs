//! What retains so much that it is named first: more than a tenth of all that is reached, below one
//! variable, thread or block.

use std::collections::HashMap;

use heapattach_reach::Amount;
use heapattach_report::{HolderRow, SuspectReport};

/// Of all that is reached; and at least so many bytes.
const PERCENT: f64 = 10.0;
const LEAST: u64 = 1 << 20;
/// The path goes on where so much of it is retained below one row.
const MOSTLY: f64 = 0.8;
const TOLD: usize = 3;

/// The largest first.
pub(super) fn suspects(rows: &[HolderRow], reached: Amount) -> Vec<SuspectReport> {
    let part = |amount: Amount| amount.bytes as f64 * 100.0 / reached.bytes.max(1) as f64;
    let mut found: Vec<SuspectReport> = Vec::new();
    for (number, row) in (0..).zip(rows) {
        // What several roots hold is one suspect for each kind of block, not all of it together.
        let is_top = match row.before {
            None => row.root.is_some(),
            Some(before) => usize::try_from(before)
                .ok()
                .and_then(|before| rows.get(before))
                .is_some_and(|above| above.before.is_none() && above.root.is_none()),
        };
        let is_large = part(row.retained) > PERCENT && row.retained.bytes >= LEAST;
        if is_top && is_large {
            found.push(suspect(rows, number, part(row.retained)));
        }
    }
    found.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    found.truncate(TOLD);
    found
}

fn suspect(rows: &[HolderRow], holder: u64, percent: f64) -> SuspectReport {
    let row = |number: u64| usize::try_from(number).ok().and_then(|number| rows.get(number));
    let mut path = Vec::new();
    let (mut at, mut accumulates) = (holder, holder);
    if let Some(above) = row(holder).and_then(|row| row.before).and_then(row) {
        path.push(above.name.clone());
    }
    let whole = row(holder).map_or(0, |row| row.retained.bytes) as f64;
    while let Some(own) = row(at) {
        path.push(own.name.clone());
        // Up to there it is one block after another; then it is many.
        if own.own.blocks <= 1 {
            accumulates = at;
        }
        let below = (0..).zip(rows).filter(|(_, row)| row.before == Some(at));
        let most = below.max_by_key(|(_, row)| row.retained.bytes);
        match most.filter(|(_, row)| row.retained.bytes as f64 >= whole * MOSTLY) {
            Some((next, _)) => at = next,
            None => break,
        }
    }
    let (mostly, of_these) = mostly(rows, holder);
    SuspectReport { holder, accumulates, percent, path, mostly, of_these }
}

/// The name that most bytes below have.
fn mostly(rows: &[HolderRow], holder: u64) -> (String, Amount) {
    let mut is_below = vec![false; rows.len()];
    let mut sums: HashMap<&str, Amount> = HashMap::new();
    for ((number, index), row) in (0..).zip(0..).zip(rows) {
        let above = row.before.and_then(|before| usize::try_from(before).ok());
        let below = number == holder
            || above.is_some_and(|above| is_below.get(above).copied().unwrap_or(false));
        let index: usize = index;
        is_below[index] = below;
        if below && row.own.blocks > 0 {
            let sum = sums.entry(&row.name).or_default();
            *sum = sum.and(row.own);
        }
    }
    let most = sums.into_iter().max_by_key(|(name, sum)| (sum.bytes, *name));
    most.map_or_else(Default::default, |(name, sum)| (name.to_owned(), sum))
}

#[cfg(test)]
mod tests {
    use heapattach_reach::RootKind;

    use super::*;

    fn row(before: Option<u64>, name: &str, own: (u64, u64), retained: (u64, u64)) -> HolderRow {
        let amount = |(mib, blocks): (u64, u64)| Amount { bytes: mib << 20, blocks };
        let root = before.is_none().then_some(RootKind::Globals);
        let (own, retained) = (amount(own), amount(retained));
        HolderRow { before, root, name: name.to_owned(), own, retained }
    }

    #[test]
    fn a_map_of_objects_accumulates_in_its_table_and_is_mostly_its_objects() {
        let rows = [
            row(None, "cache", (0, 0), (90, 2002)),
            row(Some(0), "Cache", (1, 1), (90, 2002)),
            row(Some(1), "Node", (20, 1000), (88, 2000)),
            row(Some(2), "Session", (68, 1000), (68, 1000)),
            row(None, "small", (0, 0), (5, 1)),
        ];
        let found = suspects(&rows, Amount { bytes: 95 << 20, blocks: 2003 });
        let [one] = &found[..] else { panic!("one suspect: {found:?}") };
        assert_eq!((one.holder, one.accumulates), (0, 1));
        assert_eq!(one.path, ["cache", "Cache", "Node"]);
        assert_eq!((one.mostly.as_str(), one.of_these.blocks), ("Session", 1000));
        assert!((94.0..95.0).contains(&one.percent), "{}", one.percent);
    }

    #[test]
    fn little_memory_is_no_suspect_whatever_its_part() {
        let rows = [row(None, "all", (0, 0), (0, 1))];
        assert!(suspects(&rows, Amount { bytes: 1, blocks: 1 }).is_empty());
    }
}
