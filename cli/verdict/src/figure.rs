//! Numbers as people read them: with their interval wherever they are estimated.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

use serde::Serialize;

use heapattach_profile::{Amount, Estimate, Measure};
use heapattach_text::quantity;
pub use heapattach_text::quantity::clock;

/// An upper end that is so many times the value is none.
const OPEN: f64 = 20.0;

/// What blocks are measured by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Bytes requested.
    #[default]
    Bytes,
    /// Numbers of blocks.
    Blocks,
}

impl Unit {
    /// Both units.
    pub const ALL: [Self; 2] = [Self::Bytes, Self::Blocks];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Blocks => "blocks",
        }
    }

    /// The one of two numbers.
    pub fn of(self, measure: &Measure) -> Estimate {
        match self {
            Self::Bytes => measure.bytes,
            Self::Blocks => measure.count,
        }
    }

    /// The same of what is told of it.
    pub fn of_amount(self, amount: &Amount) -> Estimate {
        match self {
            Self::Bytes => amount.bytes.into(),
            Self::Blocks => amount.blocks.into(),
        }
    }

    /// With its interval.
    pub fn show(self, estimate: Estimate) -> Figure {
        without_tenths(show(estimate, self.scale(estimate)), estimate, self.smallest())
    }

    /// With its sign, and its interval.
    pub fn show_change(self, change: Estimate) -> Figure {
        let scale = self.scale(change);
        let signed = |value: f64| format!("{}{}", sign(value), scale.number(value.abs()));
        without_tenths(with_interval(change, signed, scale.name), change, self.smallest())
    }

    fn smallest(self) -> &'static str {
        match self {
            Self::Bytes => " B",
            Self::Blocks => "",
        }
    }

    fn scale(self, estimate: Estimate) -> Scale {
        match self {
            Self::Bytes => Scale::bytes_of(estimate),
            Self::Blocks if is_exact(estimate) => Scale::whole(),
            Self::Blocks => Scale::decimal(estimate.value),
        }
    }
}

/// A number in words, and its interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figure {
    /// `12.4 MiB`.
    pub value: String,
    /// `11.0 to 13.6 MiB`; empty of what is known.
    pub interval: String,
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)?;
        if self.interval.is_empty() { Ok(()) } else { write!(f, " ({})", self.interval) }
    }
}

/// `12.4 MiB (11.0 to 13.6 MiB)`.
pub fn bytes(estimate: Estimate) -> String {
    Unit::Bytes.show(estimate).to_string()
}

/// `1.2 MiB/s (1.1 to 1.4 MiB/s)` of so many bytes in so many seconds.
pub fn bytes_a_second(bytes: Estimate, seconds: f64) -> Figure {
    let Estimate { value, low, high } = bytes;
    let [value, low, high] = [value, low, high].map(|end| end / seconds.max(0.001));
    rate(Estimate { value, low, high }, "s")
}

/// `1.2 MiB/min (1.1 to 1.4)`.
pub fn bytes_a_minute(estimate: Estimate) -> String {
    rate(estimate, "min").to_string()
}

fn rate(estimate: Estimate, time: &str) -> Figure {
    let scale = Scale::bytes_of(estimate);
    let number = |value: f64| scale.number(value.max(0.0));
    with_interval(estimate, number, &format!("{}/{time}", scale.name))
}

/// `1 234`, or `12.4 k (11.0 to 13.6 k)` of samples.
pub fn blocks(estimate: Estimate) -> String {
    Unit::Blocks.show(estimate).to_string()
}

/// `96 % (90 to 98 %)` of a part between 0 and 1.
pub fn percent(part: Estimate) -> String {
    percentage(part).to_string()
}

/// The same, apart from its interval.
pub fn percentage(part: Estimate) -> Figure {
    let number = |value: f64| {
        let percent = 100.0 * value;
        // Neither nothing nor all of it, where that is not so.
        match percent {
            p if p > 0.0 && p < 0.05 => "<0.1".to_owned(),
            p if p > 0.0 && p < 0.95 => format!("{p:.1}"),
            p if p > 99.0 && p < 100.0 => format!("{:.1}", p.min(99.9)),
            p => format!("{p:.0}"),
        }
    };
    with_interval(part, number, " %")
}

/// `340 us`, `2.0 s`.
pub fn microseconds(number: u64) -> String {
    match Duration::from_micros(number) {
        long if long.as_secs() >= 120 => clock(long),
        short => quantity::time(short),
    }
}

/// Whether nothing is estimated in a number.
pub fn is_exact(estimate: Estimate) -> bool {
    estimate.low == estimate.high
}

/// The whole number next to it; what is none, or below nothing, is 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn whole(value: f64) -> u64 {
    // The cast stays within its bounds by itself, and makes 0 of what is not a number.
    value.round() as u64
}

/// The unit that a number and both ends of its interval are told in.
#[derive(Clone, Copy)]
struct Scale {
    by: f64,
    name: &'static str,
    is_whole: bool,
}

/// A number and the ends of its interval have one unit; where an end had more digits than this in the unit
/// of the number, it is that of the end.
const DIGITS: f64 = 10_000.0;

impl Scale {
    fn bytes_of(estimate: Estimate) -> Self {
        let own = Self::bytes(estimate.value);
        let end = estimate.low.abs().max(estimate.high.abs());
        if end / own.by >= DIGITS && end.is_finite() { Self::bytes(end) } else { own }
    }

    fn bytes(value: f64) -> Self {
        let units = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];
        Self::of(value, 1024.0, &units)
    }

    fn decimal(value: f64) -> Self {
        // Three digits are more than samples tell; up to there it is the number itself.
        if value.abs() < 10_000.0 {
            Self::whole()
        } else {
            Self::of(value, 1000.0, &["", " k", " M", " G", " T"])
        }
    }

    fn whole() -> Self {
        Self { by: 1.0, name: "", is_whole: true }
    }

    fn of(value: f64, step: f64, names: &[&'static str]) -> Self {
        let (mut by, mut at) = (1.0, 0);
        // Half a digit more would be rounded up to the next unit.
        while value.abs() / by >= step - 0.05 && at + 1 < names.len() {
            by *= step;
            at += 1;
        }
        Self { by, name: names[at], is_whole: at == 0 }
    }

    fn number(self, value: f64) -> String {
        match self.is_whole {
            true => quantity::count(whole(value)),
            false => format!("{:.1}", value / self.by),
        }
    }
}

fn show(estimate: Estimate, scale: Scale) -> Figure {
    with_interval(estimate, |value| scale.number(value.max(0.0)), scale.name)
}

/// Both have the unit: an interval is read, and copied, without its number, too.
fn with_interval(estimate: Estimate, number: impl Fn(f64) -> String, unit: &str) -> Figure {
    let Estimate { value, low, high } = estimate;
    let interval = match is_exact(estimate) {
        true => String::new(),
        // Tiny blocks that no sample fell on have no bound that is worth a name.
        false if value > 0.0 && low >= 0.0 && high > OPEN * value => {
            format!("at least {}{unit}", number(low))
        }
        false => format!("{} to {}{unit}", number(low), number(high)),
    };
    Figure { value: format!("{}{unit}", number(value)), interval }
}

/// What is nothing is not so many tenths of the unit that its interval needs.
fn without_tenths(mut figure: Figure, estimate: Estimate, unit: &str) -> Figure {
    if estimate.value == 0.0 {
        figure.value = format!("0{unit}");
    }
    figure
}

fn sign(value: f64) -> &'static str {
    match value {
        v if v > 0.0 => "+",
        v if v < 0.0 => "-",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn an_estimate_has_its_interval_in_the_same_unit() {
        let mebi = f64::from(1 << 20);
        assert_eq!(
            bytes(range(12.4 * mebi, 11.0 * mebi, 13.6 * mebi)),
            "12.4 MiB (11.0 to 13.6 MiB)"
        );
        assert_eq!(bytes(range(700.0, 0.0, 2000.0)), "700 B (0 to 2 000 B)");
        assert_eq!(bytes(range(0.0, 0.0, 1_934_035.0)), "0 B (0.0 to 1.8 MiB)");
        let change = range(0.0, -3_973_150.0, 0.0);
        assert_eq!(Unit::Bytes.show_change(change).to_string(), "0 B (-3.8 to 0.0 MiB)");
        assert_eq!(blocks(range(12_400.0, 900.0, 13_600.0)), "12.4 k (0.9 to 13.6 k)");
        assert_eq!(blocks(range(20.0, 10.0, 30.0)), "20 (10 to 30)");
        assert_eq!(blocks(range(20.0, 10.0, 2e6)), "20 (at least 10)");
    }

    #[test]
    fn what_is_known_is_told_to_the_last_block() {
        assert_eq!(blocks(range(1_234_567.0, 1_234_567.0, 1_234_567.0)), "1 234 567");
        assert_eq!(bytes(range(1536.0, 1536.0, 1536.0)), "1.5 KiB");
        assert_eq!(bytes(range(1_048_575.0, 1_048_575.0, 1_048_575.0)), "1.0 MiB");
    }

    #[test]
    fn a_change_has_a_sign() {
        let change = range(2048.0, -1024.0, 4096.0);
        let told = |unit: Unit, change| unit.show_change(change).to_string();
        assert_eq!(told(Unit::Bytes, change), "+2.0 KiB (-1.0 to +4.0 KiB)");
        assert_eq!(told(Unit::Blocks, range(-5.0, -5.0, -5.0)), "-5");
        assert_eq!(told(Unit::Blocks, range(0.0, 0.0, 0.0)), "0");
    }

    #[test]
    fn a_part_is_neither_nothing_nor_all_unless_it_is() {
        let exact = |part| percent(range(part, part, part));
        let told = [0.0, 0.0001, 0.009, 0.5, 0.9999, 1.0].map(exact);
        assert_eq!(told, ["0 %", "<0.1 %", "0.9 %", "50 %", "99.9 %", "100 %"]);
        assert_eq!(percent(range(0.96, 0.9, 0.98)), "96 % (90 to 98 %)");
    }

    #[test]
    fn numbers_of_a_hostile_file_are_numbers() {
        for value in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            for text in [bytes(range(value, 0.0, 1.0)), blocks(range(value, value, value))] {
                assert!(text.len() < 400, "{text}");
            }
        }
    }
}
