//! How cost grows along the curves: for each tool and figure the power of what is varied that it grows with.
//!
//! 0 is flat and 1 in proportion; what has a part that stays is in between, and nears its own power at the upper
//! end. So both are told: from the first point to the last, and between the last two.

use super::book::Row;

/// The part whose works are `WHAT = NUMBER`.
pub(super) const PART: &str = "curves";
/// What grows with a smaller power is as good as flat.
const FLAT: f64 = 0.15;
/// Measurements of what is in proportion are not nearer to it.
const NOISE: f64 = 0.2;

/// How one figure of one tool grows.
#[derive(Debug, PartialEq)]
pub(super) struct Slope<'a> {
    pub(super) what: &'a str,
    pub(super) tool: &'a str,
    pub(super) figure: &'a str,
    pub(super) unit: &'a str,
    /// The first point and the last: what was varied, and what was measured.
    pub(super) ends: [(f64, f64); 2],
    /// The power from the first to the last, and between the last two; none of what is nothing.
    pub(super) powers: Option<[f64; 2]>,
}

/// What is varied, the first row of a curve, and its points.
type Curve<'a> = (&'a str, &'a Row, Vec<(f64, f64)>);

/// One for each curve that has two points.
pub(super) fn slopes(rows: &[Row]) -> Vec<Slope<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for row in rows.iter().filter(|row| row.part == PART) {
        let Some((what, number)) = row.work.split_once(" = ") else { continue };
        let Ok(x) = number.parse::<f64>() else { continue };
        let is_it = |(other, first, _): &&mut Curve<'_>| {
            *other == what && (&first.tool, &first.figure) == (&row.tool, &row.figure)
        };
        match curves.iter_mut().find(is_it) {
            Some((.., points)) => points.push((x, row.spread.median)),
            None => curves.push((what, row, vec![(x, row.spread.median)])),
        }
    }
    let told = curves.into_iter().filter_map(|(what, row, mut points)| {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [first, before, last] = match points[..] {
            [first, last] => [first, first, last],
            [first, .., before, last] => [first, before, last],
            _ => return None,
        };
        let powers = power(first, last).zip(power(before, last)).map(|(all, end)| [all, end]);
        let Row { tool, figure, unit, .. } = row;
        Some(Slope { what, tool, figure, unit, ends: [first, last], powers })
    });
    told.collect()
}

fn power((x, y): (f64, f64), (next_x, next_y): (f64, f64)) -> Option<f64> {
    let power = (next_y / y).ln() / (next_x / x).ln();
    (y > 0.0 && next_y > 0.0 && power.is_finite()).then_some(power)
}

impl Slope<'_> {
    /// What it is, in words.
    pub(super) fn words(&self) -> &'static str {
        match self.powers {
            None => "nothing to tell",
            Some([all, end]) if all.max(end) < FLAT => "flat",
            Some([_, end]) if end <= 1.0 + NOISE => "at most in proportion",
            Some(_) => "**steeper**",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Spread;

    fn rows(points: &[(u32, f64)]) -> Vec<Row> {
        let row = |&(x, y): &(u32, f64)| Row {
            part: PART.to_owned(),
            work: format!("threads = {x}"),
            tool: "a".to_owned(),
            figure: "stop".to_owned(),
            unit: "ms".to_owned(),
            spread: Spread::of(vec![y]),
        };
        points.iter().map(row).collect()
    }

    fn told(points: &[(u32, f64)]) -> &'static str {
        slopes(&rows(points))[0].words()
    }

    #[test]
    fn a_slope_is_the_power_at_the_upper_end() {
        assert_eq!(told(&[(1, 5.0), (10, 5.1), (100, 5.2)]), "flat");
        // A part that stays hides nothing at the end.
        assert_eq!(told(&[(1, 5.1), (10, 6.0), (100, 15.0)]), "at most in proportion");
        assert_eq!(told(&[(1, 5.1), (10, 15.0), (100, 1005.0)]), "**steeper**");
        assert_eq!(told(&[(1, 0.0), (100, 0.0)]), "nothing to tell");
    }

    #[test]
    fn points_are_taken_in_their_order_and_one_alone_is_no_curve() {
        let all = rows(&[(100, 4.0), (1, 2.0), (10, 2.0)]);
        let slopes = slopes(&all);
        assert_eq!((slopes.len(), slopes[0].ends), (1, [(1.0, 2.0), (100.0, 4.0)]));
        let [whole, end] = slopes[0].powers.unwrap();
        assert!((whole - 0.1505).abs() < 1e-3 && (end - 0.301).abs() < 1e-3, "{whole} {end}");
        assert!(super::slopes(&all[..1]).is_empty());
    }
}
