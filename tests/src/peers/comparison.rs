//! Whether two runs agree within the noise that they themselves state.
//!
//! A median of few measurements moves by a part of their spread from run to run; beside that, the same
//! program measured twice in a run shows what cannot be told apart at all. Medians that differ by more
//! than both together disagree.

use std::fmt::{self, Display, Formatter};

use super::{
    Outcome,
    book::Row,
    tool::{PLAIN_AGAIN, SAME_AGAIN},
};

/// Rows of fewer measurements are not compared: they state no noise.
const FEWEST: usize = 3;
/// How many times the half of the middle half of the measurements a median may have moved.
const MOVED: f64 = 2.0;
/// Rates and times of a machine that others use, too, move together by this much.
const MACHINE: f64 = 0.25;

/// What became of each row that both runs have.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Rows that were compared.
    pub compared: usize,
    /// Those that differ by more than noise, in words.
    pub apart: Vec<String>,
}

impl Comparison {
    /// Compares the rows that both have.
    #[must_use]
    pub fn of(old: &Outcome, new: &Outcome) -> Self {
        let mut comparison = Self::default();
        for row in &new.rows {
            let Some(before) = old.row(&row.part, &row.work, &row.tool, &row.figure) else {
                continue;
            };
            if row.spread.number.min(before.spread.number) < FEWEST {
                continue;
            }
            comparison.compared += 1;
            let noise = noise(old, before).max(noise(new, row));
            let allowed = MOVED * (half(before) + half(row)) + noise;
            let [was, is] = [before, row].map(|row| row.spread.median);
            if (is - was).abs() > allowed {
                let Row { part, work, tool, figure, unit, .. } = row;
                comparison.apart.push(format!(
                    "{part}, {work}, {tool}, {figure}: {was:.3} {unit}, then {is:.3}; noise {allowed:.3}"
                ));
            }
        }
        comparison
    }

    /// Whether nothing differs by more than noise, and anything was compared.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.compared > 0 && self.apart.is_empty()
    }
}

/// Half of what lies between the quartiles.
fn half(row: &Row) -> f64 {
    (row.spread.high - row.spread.low) / 2.0
}

/// How far the same program was from itself.
fn noise(outcome: &Outcome, row: &Row) -> f64 {
    let of = |tool| outcome.row(&row.part, &row.work, tool, &row.figure);
    let from_itself = [PLAIN_AGAIN, SAME_AGAIN].into_iter().filter_map(of).map(|same| {
        let (low, high) = (same.spread.low - 1.0, same.spread.high - 1.0);
        low.abs().max(high.abs())
    });
    let relative = if row.unit == "times" { from_itself.fold(0.0, f64::max) } else { MACHINE };
    relative * row.spread.median.abs()
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (compared, apart) = (self.compared, self.apart.len());
        writeln!(f, "{compared} rows of two runs compared: {apart} differ by more than noise")?;
        self.apart.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::peers::{
        book::{Book, Place},
        figure::Figure,
    };

    fn run(values: [f64; 3], same: [f64; 3]) -> Outcome {
        let mut book = Book::default();
        for (tool, values) in [("heaptrack", values), (PLAIN_AGAIN, same)] {
            let at = Place { part: "race", work: "a", tool };
            for (round, value) in (0..).zip(values) {
                book.note(at, Figure::TIMES, round, value);
            }
        }
        Outcome::new(&book, BTreeMap::new(), (3, 1), 0.0)
    }

    #[test]
    fn medians_inside_the_noise_agree_and_others_do_not() {
        let quiet = [1.0, 1.0, 1.0];
        let old = run([2.0, 2.02, 2.04], quiet);
        assert!(Comparison::of(&old, &run([2.01, 2.05, 2.07], quiet)).agrees());
        let apart = Comparison::of(&old, &run([2.5, 2.5, 2.5], quiet));
        assert_eq!((apart.compared, apart.apart.len()), (2, 1));
        assert!(apart.to_string().contains("heaptrack"));
        // Where the plain program itself is so far from itself nothing can be said.
        assert!(Comparison::of(&old, &run([2.5, 2.5, 2.5], [0.7, 1.0, 1.3])).agrees());
    }

    #[test]
    fn runs_without_common_rows_do_not_agree() {
        let empty = Outcome::new(&Book::default(), BTreeMap::new(), (1, 1), 0.0);
        assert!(!Comparison::of(&empty, &run([1.0; 3], [1.0; 3])).agrees());
    }
}
