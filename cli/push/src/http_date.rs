//! Dates of HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970. Forms of older times are not understood.
pub fn parse(text: &str) -> Option<u64> {
    let mut words = text.trim().split_once(", ")?.1.split(' ');
    let number = |text: &str, most: u64| -> Option<u64> {
        let is_number =
            !text.is_empty() && text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|number: &u64| is_number && *number <= most)
    };
    let day = number(words.next()?, 31)?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|known| *known == month)? as u64 + 1;
    let year = number(words.next()?, 9999).filter(|year| *year >= 1970)?;
    let mut clock = words.next()?.split(':');
    let hour = number(clock.next()?, 23)?;
    let minute = number(clock.next()?, 59)?;
    let second = number(clock.next()?, 60)?;
    if day == 0 || clock.next().is_some() || words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    // Years that begin in March have the day that is added at their ends.
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * month + 2) / 5 + day
            - 1;
    let days = days.checked_sub(719_468)?;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_date_is_none() {
        for wrong in [
            "",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 0 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn no_text_ends_it(text in ".{0,60}") {
            let _ = parse(&text);
        }
    }
}
