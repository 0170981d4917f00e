//! Durations and sizes, as people type them and as they read them.

use std::time::Duration;

/// Ten years: longer is a mistake, and would overflow deadlines.
const LONGEST: f64 = 10.0 * 366.0 * 86400.0;

/// Parses `300ms`, `5s`, `2.5m`, `1h` or `1d`; a bare number is seconds.
///
/// # Errors
/// What is wrong with it.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("`{unit}` is not a unit of time; use ms, s, m, h or d")),
    };
    let seconds = parse_number(number)? * scale;
    if seconds > LONGEST {
        return Err("that is more than ten years".to_owned());
    }
    if seconds < 0.001 {
        return Err("that is less than a millisecond".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The same, or 0: no time at all.
///
/// # Errors
/// What is wrong with it.
pub fn parse_duration_or_none(text: &str) -> Result<Duration, String> {
    let (number, _) = split(text);
    match parse_number(number) {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => parse_duration(text),
    }
}

/// Parses `64MiB`, `1.5G`, `4096`: all units are powers of 1024.
///
/// # Errors
/// What is wrong with it.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("`{unit}` is not a unit of size; use KiB, MiB, GiB or TiB")),
    };
    let bytes = parse_number(number)?
        * f64::from(1_u32 << (scale % 30))
        * if scale >= 30 { f64::from(1 << 30) } else { 1.0 };
    if bytes > 9e15 {
        return Err("that is more memory than any machine has".to_owned());
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(bytes as u64)
}

/// Parses `64KiB/min`, `1MiB/s`, `2G/h`: bytes a minute.
///
/// # Errors
/// What is wrong with it.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let (size, unit) = text
        .rsplit_once('/')
        .ok_or_else(|| format!("`{text}` is not SIZE/min, SIZE/s or SIZE/h"))?;
    let size = parse_size(size)?;
    match unit.trim() {
        "s" => Ok(size.saturating_mul(60)),
        "m" | "min" => Ok(size),
        "h" => Ok(size / 60),
        unit => Err(format!("`{unit}` is not a unit of time for a rate; use s, min or h")),
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

fn parse_number(text: &str) -> Result<f64, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    match text.parse::<f64>() {
        Ok(number) if digits && number.is_finite() => Ok(number),
        _ => Err(format!("`{text}` is not a positive number")),
    }
}

/// `1.2 GiB`.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    #[allow(clippy::cast_precision_loss)]
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", units[unit]) }
}

/// `1 block`, `2 blocks`: a noun that is made plural by an s.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `1 234 567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `1.25 ms`, `340 us`, `2.0 s`.
pub fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 0.001 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// `43.0 s`, `12 min 05 s`, `3 h 07 min`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0 | 1, _) => self::time(time),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{} h {minutes:02} min", count(hours)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_told_as_many() {
        let told = [0, 1, 1000].map(|number| counted(number, "block"));
        assert_eq!(told, ["0 blocks", "1 block", "1 000 blocks"]);
    }

    #[test]
    fn reads_what_people_type() {
        assert_eq!(parse_duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(parse_duration("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration_or_none("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration_or_none("2s"), Ok(Duration::from_secs(2)));
        assert!(parse_duration_or_none("-1").is_err() && parse_duration_or_none("").is_err());
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1.5G"), Ok(3 << 29));
        assert_eq!(parse_size("2T"), Ok(2 << 40));
        assert_eq!(parse_rate("64KiB/min"), Ok(65_536));
        assert_eq!(parse_rate("1K / s"), Ok(61_440));
        assert_eq!(parse_rate("60/h"), Ok(1));
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        for text in ["", "-1s", "1e99y", "nan", "inf", "99999999999h", "0", "5x", "--", "1..2"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for text in ["", "-1", "1X", "99999999999T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        for text in ["", "1", "1MiB", "/min", "1/d", "-1/min", "1//min"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn writes_what_people_read() {
        assert_eq!((bytes(512).as_str(), bytes(1536).as_str()), ("512 B", "1.5 KiB"));
        assert_eq!((count(0).as_str(), count(1_234_567).as_str()), ("0", "1 234 567"));
        assert_eq!(time(Duration::from_micros(1250)), "1.25 ms");
    }

    #[test]
    fn long_times_are_told_by_the_clock() {
        assert_eq!(clock(Duration::from_secs(43)), "43.0 s");
        assert_eq!(clock(Duration::from_secs(725)), "12 min 05 s");
        assert_eq!(clock(Duration::from_secs(11_220)), "3 h 07 min");
    }
}
