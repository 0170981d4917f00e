//! The rows of each site of a ledger, side by side: what one of them has is summed when it is asked for.

use std::{ops::Range, sync::Arc};

use heapattach_ledger::{Ledger, Metric, Row};
use heapattach_profile::Sum;

/// All rows of a ledger, those of a part next to one another.
#[derive(Debug)]
struct All {
    ledger: Arc<Ledger>,
    order: Vec<u32>,
}

/// Some rows of a ledger.
#[derive(Clone, Debug)]
pub struct Part {
    all: Arc<All>,
    range: Range<usize>,
}

impl Part {
    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let numbers = self.all.order.get(self.range.clone()).unwrap_or_default();
        numbers.iter().filter_map(|number| self.all.ledger.rows.get(*number as usize))
    }

    /// What they have together.
    pub fn sum(&self, metric: Metric) -> Sum {
        let mut sum = Sum::default();
        self.rows().for_each(|row| row.add_to(metric, &mut sum));
        sum
    }
}

/// So many parts, each of the rows that `part` counts to it, in their order.
pub fn parts(
    ledger: &Arc<Ledger>,
    count: usize,
    part: impl FnMut(&Row) -> Option<usize>,
) -> impl Iterator<Item = Part> {
    let of: Vec<Option<usize>> = ledger.rows.iter().map(part).collect();
    // Where each part ends; then, while it is filled, where its next row goes.
    let mut ends = vec![0; count];
    of.iter().flatten().for_each(|part| ends[*part] += 1);
    let mut next: Vec<usize> = Vec::with_capacity(count);
    let mut all = 0;
    for end in &mut ends {
        next.push(all);
        all += *end;
        *end = all;
    }
    let mut order = vec![0; all];
    for (number, part) in (0..).zip(&of) {
        if let Some(part) = *part {
            order[next[part]] = number;
            next[part] += 1;
        }
    }
    let all = Arc::new(All { ledger: ledger.clone(), order });
    let mut begin = 0;
    ends.into_iter().map(move |end| {
        let range = std::mem::replace(&mut begin, end)..end;
        Part { all: all.clone(), range }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn each_row_is_in_its_part_and_those_without_one_in_none() {
        let ledger = Arc::new(sample::ledger());
        let of = |row: &Row| (row.stack != 0).then_some(row.stack as usize % 3);
        let parts: Vec<Part> = parts(&ledger, 4, of).collect();
        let mut seen = 0;
        for (number, part) in parts.iter().enumerate() {
            assert!(part.rows().all(|row| of(row) == Some(number)));
            seen += part.rows().count();
        }
        assert_eq!(seen, ledger.rows.iter().filter(|row| row.stack != 0).count());
        assert_eq!((parts.len(), parts[3].rows().count()), (4, 0));
        assert_eq!(parts[3].sum(Metric::Live).records(), 0);
    }
}
