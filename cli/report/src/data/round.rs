//! One of several checks of a process, as data and as a line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::look_method::LookMethod;
use heapattach_reach::Amount;
use heapattach_text::quantity::{bytes, count, time};

/// A check, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoundReport {
    /// The first is 1.
    pub number: u64,
    /// Milliseconds since the attach.
    pub at_ms: u64,
    /// What the program calls the moment, if it asked for the check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What was leaked by then, direct and indirect.
    pub lost: Amount,
    /// What may have been.
    pub possible: Amount,
    /// Stacks that leaked for the first time.
    pub new_stacks: u64,
    /// Stacks that leaked more than before.
    pub grown_stacks: u64,
    /// Bytes leaked in addition to those of the check before; of the first check all.
    pub more_bytes: i64,
    /// How long the target was stopped for it.
    pub paused_us: f64,
    /// How memory was kept.
    pub method: LookMethod,
    /// What makes the result less than certain.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl RoundReport {
    /// The line for people.
    pub fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
        let after = time(Duration::from_millis(self.at_ms));
        let head = format!("check {}{name} after {after}", self.number);
        if let Some(error) = &self.error {
            return format!("{head}: none: {error}");
        }
        if !self.doubts.is_empty() {
            return format!("{head}: nothing can be concluded: {}", self.doubts.join("; "));
        }
        let paused = time(Duration::from_secs_f64(self.paused_us.max(0.0) / 1e6));
        let blocks = count(self.lost.blocks);
        let plural = if self.lost.blocks == 1 { "" } else { "s" };
        let mut line =
            format!("{head}: {} leaked in {blocks} block{plural}", bytes(self.lost.bytes));
        let change = self.more_bytes.unsigned_abs();
        if self.number > 1 && change > 0 {
            let than = if self.more_bytes > 0 { "more" } else { "less" };
            line += &format!(", {} {than} than before", bytes(change));
            line += &stacks(self.new_stacks, "new stack");
            line += &stacks(self.grown_stacks, "stack that grew");
        }
        line + &format!("; stopped for {paused}")
    }
}

fn stacks(number: u64, what: &str) -> String {
    match number {
        0 => String::new(),
        1 => format!(", 1 {what}"),
        many => format!(", {} {}", count(many), what.replacen("stack", "stacks", 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_is_new_since_the_last_check() {
        let first = RoundReport {
            number: 1,
            at_ms: 30_000,
            lost: Amount { bytes: 2048, blocks: 1 },
            more_bytes: 2048,
            paused_us: 3000.0,
            ..RoundReport::default()
        };
        let line = "check 1 after 30.0 s: 2.0 KiB leaked in 1 block; stopped for 3.00 ms";
        assert_eq!(first.text(), line);
        let next = RoundReport {
            number: 2,
            name: Some("idle".to_owned()),
            new_stacks: 1,
            grown_stacks: 2,
            lost: Amount { bytes: 4096, blocks: 3 },
            ..first
        };
        let text = next.text();
        assert!(
            text.starts_with("check 2 `idle` after 30.0 s: 4.0 KiB leaked in 3 blocks"),
            "{text}"
        );
        let change = "2.0 KiB more than before, 1 new stack, 2 stacks that grew;";
        assert!(text.contains(change), "{text}");
    }

    #[test]
    fn a_check_without_a_result_says_why() {
        let error = Some("the check would stop the process for about 2 s".to_owned());
        let round = RoundReport { number: 3, error, ..RoundReport::default() };
        assert!(round.text().ends_with("none: the check would stop the process for about 2 s"));
        let doubts = vec!["3 records were never finished".to_owned()];
        let round = RoundReport { number: 3, doubts, ..RoundReport::default() };
        assert!(round.text().contains("nothing can be concluded: 3 records"), "{}", round.text());
    }
}
