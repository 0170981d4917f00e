//! Doing what may panic: much of the tests is made to end a test with all that is known, and here it
//! shall end a row.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// How much of a complaint is told.
const TOLD: usize = 300;

/// What `action` gives, or what it complained of, on one line.
///
/// # Errors
/// Its error, or the message of its panic.
pub(super) fn attempt<T>(action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // What was half done is dropped with the row.
    let result = catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("panicked").to_owned())
    });
    result.map_err(|why| brief(&why))
}

fn brief(why: &str) -> String {
    let words: Vec<&str> = why.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(TOLD) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_reason_on_one_line() {
        let failed: Result<(), _> = attempt(|| panic!("two\n  lines, {}", 1));
        assert_eq!(failed, Err("two lines, 1".to_owned()));
        assert_eq!(attempt(|| Ok(7)), Ok(7));
        let long: Result<(), _> = attempt(|| Err("é".repeat(1000)));
        assert_eq!(long.unwrap_err().chars().count(), TOLD + 3);
    }
}
