//! A time of the calendar, in UTC.

/// Seconds since 1970 as a date and a time, such as `2026-11-25 15:33:21 UTC`.
pub fn utc(seconds: u64) -> String {
    const DAY: u64 = 86_400;
    let (mut days, second) = (seconds / DAY, seconds % DAY);
    let mut year = 1970;
    // Far beyond any time that is told; a hostile number ends there.
    const LAST: u64 = 9999;
    while year < LAST && days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 1;
    while month < 12 && days >= days_of_month(year, month) {
        days -= days_of_month(year, month);
        month += 1;
    }
    let day = days.min(30) + 1;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_798_761_599), "2026-12-31 23:59:59 UTC");
        assert!(utc(u64::MAX).starts_with("9999-12-31"));
    }
}
