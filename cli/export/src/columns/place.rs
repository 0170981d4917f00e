//! Where a table lies: folders named as Hive has them, so that engines read no more than a query needs.

use std::path::PathBuf;

const DAY_MS: i64 = 86_400_000;

/// A name is cut to so many bytes.
const LONGEST: usize = 100;

/// The path of a file of a table.
pub fn of(table: &str, service: &str, at_ms: i64, session: i64) -> PathBuf {
    let service = escaped(service);
    let (year, month, day) = date(day(at_ms));
    let session = session.cast_unsigned();
    let path = format!(
        "{table}/service={service}/day={year:04}-{month:02}-{day:02}/{session:016x}.parquet"
    );
    path.into()
}

/// The day, counted from 1970.
pub fn day(at_ms: i64) -> i64 {
    at_ms.div_euclid(DAY_MS)
}

/// What is not a letter, a digit or one of `-_.` as `%` and two digits, as in an address. What begins with
/// `service=` leads to no other folder.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for byte in name.bytes() {
        if escaped.len() > LONGEST {
            break;
        }
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                escaped.push(char::from(byte));
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

/// Year, month and day of a day since 1970. Years are counted from March on: the day that only some have
/// is the last then.
fn date(day: i64) -> (i64, i64, i64) {
    let since = day.saturating_add(719_468);
    let era = since.div_euclid(146_097);
    let of_era = since.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let of = |seconds: i64| date(day(seconds * 1000));
        assert_eq!(of(0), (1970, 1, 1));
        assert_eq!(of(951_782_400), (2000, 2, 29));
        assert_eq!(of(1_700_000_000), (2023, 11, 14));
        assert_eq!(of(4_107_542_400), (2100, 3, 1));
    }

    #[test]
    fn no_name_of_a_service_leads_out_of_the_folder() {
        let path = of("sums", "../a b/\u{e9}\0", 0, -1);
        let told = "sums/service=..%2Fa%20b%2F%C3%A9%00/day=1970-01-01/ffffffffffffffff.parquet";
        assert_eq!(path.to_str(), Some(told));
        assert!(escaped(&"/".repeat(1000)).len() < 110);
    }
}
