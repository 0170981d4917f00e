//! Many measurements of one thing, told by their quartiles.

use serde::{Deserialize, Serialize};

/// Median and quartiles.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the measurements were below.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters.
    pub high: f64,
    /// The greatest.
    pub max: f64,
    /// How many there were.
    pub number: usize,
}

impl Spread {
    /// Of these measurements; all zero if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        let at = |index: usize| values.get(index).copied().unwrap_or_default();
        // Of few values the quartiles are the outer ones: rather too wide than too narrow.
        let (low, high) = (at(last / 4), at((last * 3).div_ceil(4)));
        Self { low, median: at(last / 2), high, max: at(last), number: values.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_quartiles_of_measurements_in_any_order() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((spread.low, spread.median, spread.high, spread.max), (2.0, 3.0, 4.0, 5.0));
        let few = Spread::of(vec![3.0, 1.0, 2.0]);
        assert_eq!((few.low, few.median, few.high), (1.0, 2.0, 3.0));
        assert_eq!(Spread::of(Vec::new()).number, 0);
    }
}
