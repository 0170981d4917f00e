//! One bar for each tool over a logarithmic scale, with a line between the quartiles.

use super::canvas::{Canvas, power_of_ten};
use crate::{measure::Spread, peers::table::number_of};

const WIDTH: f64 = 760.0;
const NAMES: f64 = 230.0;
const VALUES: f64 = 60.0;
const TOP: f64 = 44.0;
const ROW: f64 = 20.0;
const FOOT: f64 = 8.0;

/// A tool, and what was measured; `None` if it failed.
#[derive(Debug)]
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    pub(super) spread: Option<Spread>,
}

/// The whole picture.
#[derive(Debug)]
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) bars: Vec<Bar<'a>>,
}

impl Bars<'_> {
    pub(super) fn draw(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "some tools")]
        let height = TOP + ROW * self.bars.len() as f64 + FOOT;
        let mut canvas = Canvas::new(WIDTH, height);
        canvas.text("h", "start", (8.0, 18.0), self.title);
        let told = || self.bars.iter().filter_map(|bar| bar.spread);
        let least = told().map(|s| s.low.min(s.median)).fold(f64::INFINITY, f64::min);
        let most = told().map(|s| s.high).fold(0.0, f64::max);
        // Whole powers of ten, so that there is a mark at both ends.
        let low = least.max(1e-6).log10().floor().min(0.0);
        let high = most.max(1e-6).log10().ceil().max(low + 1.0);
        let room = WIDTH - NAMES - VALUES;
        let x = |value: f64| {
            let part = (value.max(1e-9).log10() - low) / (high - low);
            NAMES + room * part.clamp(0.0, 1.0)
        };
        let mut power = low;
        while power <= high {
            let at = x(10_f64.powf(power));
            canvas.line("g", (at, TOP - 6.0), (at, height - FOOT));
            canvas.text("t", "middle", (at, TOP - 10.0), &power_of_ten(power));
            power += 1.0;
        }
        let mut y = TOP;
        for bar in &self.bars {
            canvas.text("t", "end", (NAMES - 8.0, y + 14.0), bar.name);
            match bar.spread {
                Some(spread) => {
                    let end = x(spread.median);
                    let size = ((end - NAMES).max(1.0), ROW - 6.0);
                    canvas.bar(class(bar.name), (NAMES, y + 3.0), size);
                    let middle = y + ROW / 2.0;
                    canvas.line("w", (x(spread.low), middle), (x(spread.high), middle));
                    let beside = (x(spread.high).max(end) + 5.0, y + 14.0);
                    canvas.text("t", "start", beside, &number_of(spread.median));
                }
                None => canvas.text("f", "start", (NAMES + 4.0, y + 14.0), "failed"),
            }
            y += ROW;
        }
        canvas.finish()
    }
}

fn class(name: &str) -> &'static str {
    match name {
        _ if name.starts_with("heapattach") => "o",
        _ if name.starts_with("plain") || name.starts_with("nobody") => "n",
        _ => "p",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_bar_is_a_larger_number_and_a_failed_tool_is_named() {
        let bar = |name, value| Bar { name, spread: Some(Spread::of(vec![value])) };
        let failed = Bar { name: "c<d", spread: None };
        let bars = vec![bar("heapattach", 1.5), bar("other", 30.0), failed];
        let text = Bars { title: "t", bars }.draw();
        let widths: Vec<f64> = text
            .lines()
            .filter(|line| line.contains("class=\"o\"") || line.contains("class=\"p\""))
            .filter_map(|line| line.split("width=\"").nth(1)?.split('"').next()?.parse().ok())
            .collect();
        assert!(widths.len() == 2 && widths[0] < widths[1], "{text}");
        assert!(text.contains("c&lt;d") && text.contains(">failed<") && text.len() < 4096);
    }
}
