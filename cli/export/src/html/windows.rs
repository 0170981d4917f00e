//! What the script makes windows of time of: cells of the ledger's course, by row of the page.

use std::collections::HashMap;

use serde::Serialize;

use super::sums::Sums;
use heapattach_ledger::{Course, Fate};
use heapattach_profile::Sum;

/// Cells as flat numbers.
#[derive(Debug, Default, Serialize)]
pub struct Windows {
    /// In milliseconds; empty if the page knows nothing of windows.
    bounds: Vec<u64>,
    /// Rows that the one before is away, span of birth, fate, number of a sum; and so on.
    cells: Vec<u64>,
    /// Why there are none.
    why_none: String,
}

impl Windows {
    /// Of a course; `rows` are those of the page by stack and thread.
    pub fn new(course: &Course, rows: &HashMap<(u32, u32), usize>, sums: &mut Sums) -> Self {
        let placed = course.cells.iter().filter_map(|cell| {
            let row = *rows.get(&(cell.stack, cell.thread))?;
            Some(((row, cell.birth, code(cell.fate)), &cell.sum))
        });
        let mut cells: Vec<((usize, u8, u64), &Sum)> = placed.collect();
        cells.sort_by_key(|(key, _)| *key);
        let (mut flat, mut last) = (Vec::with_capacity(cells.len() * 4), 0);
        for cell in cells.chunk_by(|one, other| one.0 == other.0) {
            let (row, birth, fate) = cell[0].0;
            let number = match cell {
                [(_, sum)] => sums.add(sum),
                cell => {
                    let mut all = Sum::default();
                    cell.iter().for_each(|(_, sum)| all.merge(sum));
                    sums.add(&all)
                }
            };
            flat.extend([(row - last) as u64, birth.into(), fate, number.into()]);
            last = row;
        }
        Self { bounds: course.bounds_ms.clone(), cells: flat, why_none: course.why_none.clone() }
    }

    /// Of a course without any cells, for which no rows need to be known.
    pub fn of_no_cells(course: &Course) -> Option<Self> {
        course.cells.is_empty().then(|| Self {
            bounds: course.bounds_ms.clone(),
            cells: Vec::new(),
            why_none: course.why_none.clone(),
        })
    }

    /// There are none, for this reason.
    pub fn none(why: &str) -> Self {
        Self { why_none: why.to_owned(), ..Self::default() }
    }
}

/// As the script knows it.
fn code(fate: Fate) -> u64 {
    match fate {
        Fate::Held => 0,
        Fate::Unknown => 1,
        Fate::Freed { span, is_soon } => 2 + 2 * u64::from(span) + u64::from(is_soon),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::Cell;

    #[test]
    fn cells_are_told_in_the_order_of_rows_and_those_of_no_row_are_left_out() {
        let cell =
            |stack, birth, fate| Cell { stack, thread: 0, birth, fate, sum: Sum::exact(16, 2) };
        let freed = Fate::Freed { span: 3, is_soon: true };
        let cells = vec![cell(7, 2, Fate::Held), cell(5, 1, freed), cell(9, 0, Fate::Held)];
        let course = Course { bounds_ms: vec![0, 9], cells, ..Course::default() };
        let mut sums = Sums::new(false);
        let rows = HashMap::from([((5, 0), 4), ((7, 0), 6)]);
        assert_eq!(Windows::new(&course, &rows, &mut sums).cells, [4, 1, 9, 1, 2, 2, 0, 1]);
    }
}
