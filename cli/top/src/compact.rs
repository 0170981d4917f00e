//! Numbers in few columns: three digits, a unit, and how far the ends of the 95 % interval are.

use std::time::Duration;

use heapattach_profile::Estimate;
use heapattach_text::quantity;

/// An end so many times as far away as the other is told by itself.
const UNEVEN: f64 = 1.5;
/// And only if it is so much of the number away.
const WIDE: f64 = 0.1;
const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// `142 MiB`.
pub fn bytes(value: f64) -> String {
    let (by, unit) = scale(value);
    format!("{} {unit}", digits(value, by))
}

/// `142 MiB ±9`: the end that is further away counts.
pub fn with_interval(estimate: Estimate) -> String {
    format!("{}{}", bytes(estimate.value), interval(estimate))
}

/// `+4.1 MiB ±0.9`.
pub fn change(estimate: Estimate) -> String {
    let sign = match estimate.value {
        v if v > 0.0 => "+",
        v if v < 0.0 => "-",
        _ => "",
    };
    format!("{sign}{}{}", bytes(estimate.value.abs()), interval(estimate))
}

/// ` ±9`, in the unit of the number, or ` 95-180` where one end is much further away than the other; nothing of
/// what is known exactly.
fn interval(Estimate { value, low, high }: Estimate) -> String {
    let (below, above) = ((value - low).max(0.0), (high - value).max(0.0));
    let reach = below.max(above);
    let is_wide = reach > WIDE * value.abs();
    let is_uneven = is_wide && below.min(above) * UNEVEN < reach && low * high > 0.0;
    let (by, _) = scale(value.abs());
    if is_uneven && value != 0.0 && reach / by < 9999.5 {
        // Of what shrinks, both ends without their signs.
        let [from, to] = if value < 0.0 { [-high, -low] } else { [low, high] };
        return format!(" {}-{}", digits(from, by), digits(to, by));
    }
    match reach {
        r if r > 0.0 && r.is_finite() => {
            let (by, own) = scale(value.abs());
            let (most, unit) = scale(reach);
            // An interval far beyond its number has a unit of its own.
            match reach / by >= 999.5 {
                true => format!(" ±{} {unit}", digits(reach, most)),
                false if value == 0.0 => format!(" ±{} {own}", digits(reach, by)),
                false if by > 1.0 && reach / by < 0.05 => " ±<0.1".to_owned(),
                false => format!(" ±{}", digits(reach, by)),
            }
        }
        r if r > 0.0 => " ±?".to_owned(),
        _ => String::new(),
    }
}

/// `12 s`, `4 min 10 s`: whole seconds.
pub fn elapsed(ms: u64) -> String {
    match ms / 1000 {
        0 => "0 s".to_owned(),
        seconds => quantity::clock(Duration::from_secs(seconds)).replace(".0 s", " s"),
    }
}

fn scale(value: f64) -> (f64, &'static str) {
    let (mut by, mut at) = (1.0, 0);
    while value.abs() / by >= 999.5 && at + 1 < UNITS.len() {
        by *= 1024.0;
        at += 1;
    }
    (by, UNITS[at])
}

/// Up to three digits; bytes are whole.
fn digits(value: f64, by: f64) -> String {
    match (value / by).abs() {
        v if v >= 9.95 || v == 0.0 || by == 1.0 => format!("{:.0}", value / by),
        _ => format!("{:.1}", value / by),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: f64, low: f64, high: f64) -> Estimate {
        Estimate { value, low, high }
    }

    #[test]
    fn numbers_have_three_digits_and_the_further_end() {
        let mib = 1_048_576.0;
        assert_eq!(with_interval(range(142.3 * mib, 135.0 * mib, 151.3 * mib)), "142 MiB ±9.0");
        assert_eq!(change(range(4.1 * mib, 3.2 * mib, 5.0 * mib)), "+4.1 MiB ±0.9");
        assert_eq!(with_interval(range(2.0 * mib, 2.0 * mib, 2.01 * mib)), "2.0 MiB ±<0.1");
        assert_eq!(change(range(94.0 * mib, 10.0 * mib, 286.0 * mib)), "+94 MiB 10-286");
        assert_eq!(change(range(-9.0 * mib, -29.0 * mib, -5.0 * mib)), "-9.0 MiB 5.0-29");
        assert_eq!(change(range(-700.0, -700.0, -700.0)), "-700 B");
        assert_eq!(with_interval(range(0.0, 0.0, 0.0)), "0 B");
        assert_eq!(change(range(0.0, -2.0 * mib, 2.0 * mib)), "0 B ±2.0 MiB");
        assert_eq!(with_interval(range(10.0, 0.0, 3.0 * mib)), "10 B ±3.0 MiB");
        assert_eq!((bytes(1023.0).as_str(), bytes(1_040_000.0).as_str()), ("1.0 KiB", "1.0 MiB"));
    }

    #[test]
    fn numbers_of_a_hostile_file_are_short() {
        for value in [f64::NAN, f64::INFINITY, -1e300, 1e300] {
            assert!(with_interval(range(value, 0.0, f64::INFINITY)).len() < 400);
            assert!(change(range(1.0, value, value)).len() < 400);
        }
    }
}
