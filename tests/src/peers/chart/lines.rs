//! Lines over two logarithmic scales.

use super::canvas::{Canvas, power_of_ten};

const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 30.0;
const LEGEND: f64 = 18.0;

/// A tool, and what was measured where.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
}

/// The whole picture.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    pub(super) title: &'a str,
    pub(super) lines: Vec<Line<'a>>,
}

impl Lines<'_> {
    pub(super) fn draw(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "some tools")]
        let height = HEIGHT + LEGEND * self.lines.len() as f64;
        let mut canvas = Canvas::new(WIDTH, height);
        canvas.text("h", "start", (8.0, 18.0), self.title);
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (left, right) = ends(points().map(|point| point.0));
        let (low, high) = ends(points().map(|point| point.1).filter(|&value| value > 0.0));
        let x = |value: f64| {
            let part = (value.max(1e-9).log10() - left) / (right - left);
            LEFT + (WIDTH - LEFT - RIGHT) * part.clamp(0.0, 1.0)
        };
        let y = |value: f64| {
            let part = (value.max(1e-9).log10() - low) / (high - low);
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part.clamp(0.0, 1.0)
        };
        for power in powers(left, right) {
            let at = x(10_f64.powf(power));
            canvas.line("g", (at, TOP), (at, HEIGHT - BOTTOM));
            canvas.text("t", "middle", (at, HEIGHT - BOTTOM + 16.0), &power_of_ten(power));
        }
        for power in powers(low, high) {
            let at = y(10_f64.powf(power));
            canvas.line("g", (LEFT, at), (WIDTH - RIGHT, at));
            canvas.text("t", "end", (LEFT - 6.0, at + 4.0), &power_of_ten(power));
        }
        let mut legend = HEIGHT + 6.0;
        for (number, line) in self.lines.iter().enumerate() {
            let mut points: Vec<(f64, f64)> =
                line.points.iter().map(|&(a, b)| (x(a), y(b))).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            canvas.curve(number, &points);
            canvas.curve(number, &[(LEFT, legend), (LEFT + 24.0, legend)]);
            canvas.text("t", "start", (LEFT + 32.0, legend + 4.0), line.name);
            legend += LEGEND;
        }
        canvas.finish()
    }
}

/// Powers of ten around all of them.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    let low = low.max(1e-9).log10().floor();
    (low, high.max(1e-9).log10().ceil().max(low + 1.0))
}

fn powers(low: f64, high: f64) -> impl Iterator<Item = f64> {
    std::iter::successors(Some(low), |power| Some(power + 1.0))
        .take_while(move |&power| power <= high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_values_are_higher_up() {
        let line = |name, value| Line { name, points: vec![(10.0, value), (1000.0, value)] };
        let lines = vec![line("low", 2.0), line("high", 50.0)];
        let text = Lines { title: "t", lines }.draw();
        let heights: Vec<f64> = text
            .lines()
            .filter_map(|line| {
                line.split("points=\"").nth(1)?.split([',', ' ']).nth(1)?.parse().ok()
            })
            .collect();
        assert!(heights[2] < heights[0], "{heights:?}");
        assert!(text.len() < 6000);
    }
}
