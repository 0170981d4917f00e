//! What the answer of a backend means for what was sent.

use std::time::Duration;

use heapattach_text::printable::printable;

use crate::http_date;

/// Of what a backend says so much is shown.
const SHOWN: usize = 160;

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its number.
    pub status: u16,
    /// When to come again.
    pub retry_after: Option<String>,
    /// What time it is there.
    pub date: Option<String>,
    /// The beginning of its body.
    pub text: String,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was taken.
    Sent,
    /// It may be taken another time; not before so long, if the backend says so.
    Again(String, Option<Duration>),
    /// It is never taken.
    Refused(String),
}

impl Reply {
    /// What became of the request. `now` is since 1970.
    pub fn outcome(&self, now: Duration) -> Outcome {
        let text: String = printable(self.text.trim()).chars().take(SHOWN).collect();
        let told = match text.is_empty() {
            true => format!("status {}", self.status),
            false => format!("status {}: {text}", self.status),
        };
        match self.status {
            200..=299 => Outcome::Sent,
            // It has moved. A token is not taken along to another place.
            300..=399 => Outcome::Refused(format!("{told}; need the address that it leads to")),
            // Not now, or not in time.
            408 | 425 | 429 | 500.. => Outcome::Again(told, self.after(now)),
            _ => Outcome::Refused(told),
        }
    }

    fn after(&self, now: Duration) -> Option<Duration> {
        let text = self.retry_after.as_deref()?.trim();
        if let Ok(seconds) = text.parse() {
            return Some(Duration::from_secs(seconds));
        }
        // A clock of another machine's: by its own time of now, if it tells that.
        let now = self.date.as_deref().and_then(http_date::parse).unwrap_or(now.as_secs());
        Some(Duration::from_secs(http_date::parse(text)?.saturating_sub(now)))
    }

    /// By how many seconds the clock there is ahead of ours, if it tells its time.
    pub fn ahead(&self, now: Duration) -> Option<i64> {
        let there = i64::try_from(http_date::parse(self.date.as_deref()?)?).ok()?;
        there.checked_sub(i64::try_from(now.as_secs()).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(status: u16) -> Reply {
        Reply { status, ..Reply::default() }
    }

    #[test]
    fn what_may_pass_is_tried_again_and_what_cannot_is_not() {
        let now = Duration::from_secs(784_111_770);
        for status in [408, 425, 429, 500, 502, 503, 504] {
            assert!(matches!(reply(status).outcome(now), Outcome::Again(_, None)), "{status}");
        }
        for status in [301, 307, 400, 401, 403, 404, 413, 415, 422] {
            assert!(matches!(reply(status).outcome(now), Outcome::Refused(_)), "{status}");
        }
        assert_eq!(reply(202).outcome(now), Outcome::Sent);
    }

    #[test]
    fn a_backend_says_when_to_come_again_in_seconds_or_by_a_date() {
        let now = Duration::from_secs(784_111_770);
        let after = |text: &str, date: Option<&str>| {
            let (retry_after, date) = (Some(text.to_owned()), date.map(str::to_owned));
            Reply { status: 429, retry_after, date, ..Reply::default() }.after(now)
        };
        assert_eq!(after(" 7 ", None), Some(Duration::from_secs(7)));
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(after(date, None), Some(Duration::from_secs(7)));
        assert_eq!(
            after(date, Some("Sun, 06 Nov 1994 08:49:35 GMT")),
            Some(Duration::from_secs(2))
        );
        assert_eq!(after("soon", None), None);
    }

    #[test]
    fn what_a_backend_says_is_shown_without_what_a_terminal_obeys() {
        let mut answer = reply(400);
        answer.text = format!("no\u{1b}[2J {}", "x".repeat(10_000));
        let Outcome::Refused(why) = answer.outcome(Duration::ZERO) else { panic!("refused") };
        assert!(
            why.starts_with("status 400: no") && !why.contains('\u{1b}') && why.len() < 250,
            "{why}"
        );
    }
}
