//! What can be said of the whole session, as every other report says it.

mod mapped;

use mapped::Mapped;
use serde::Serialize;

use heapattach_ledger::Ledger;
use heapattach_verdict::summary::{Advice, Summary};

/// The verdict, and what to type next.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// One sentence: what grows, or that nothing does.
    first: String,
    /// All that is said after it.
    rest: String,
    next: Vec<Advice>,
    /// `null`: nothing was mapped.
    mapped: Option<Mapped>,
}

impl Verdict {
    /// Of a profile.
    pub fn new(ledger: &Ledger) -> Self {
        let Summary { verdict, next, .. } = Summary::new(ledger);
        let rest = verdict.text.strip_prefix(&verdict.first).unwrap_or(&verdict.text);
        let rest = rest.trim_start().to_owned();
        Self { rest, first: verdict.first, next, mapped: Mapped::new(ledger) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn the_first_sentence_names_what_grows_and_is_not_said_twice() {
        let verdict = Verdict::new(&sample::ledger());
        assert!(
            verdict.first.starts_with("Grows by 3.1 KiB/s, all of it by make_node (list.c:12)")
        );
        assert!(verdict.rest.starts_with("Of 1.2 MiB allocated in 20.0 s"), "{verdict:?}");
        assert_eq!(verdict.next[0].command, "heapattach check -p 4242 --duration 10s");
    }

    #[test]
    fn a_profile_of_nothing_has_a_verdict_too() {
        let verdict = Verdict::new(&Ledger::default());
        assert!(!verdict.first.is_empty() && verdict.next.is_empty(), "{verdict:?}");
    }
}
