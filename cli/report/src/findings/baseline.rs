//! Leaks that were there before: only new and grown ones are told.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Findings, Leak};
use heapattach_reach::{Amount, Kind};

/// The shape of the file.
const SCHEMA: &str = "heapattach/baseline/1";
/// Calls that are kept for people to read.
const SHOWN: usize = 8;
/// A file with more leaks is not honest.
const MOST: usize = 1_000_000;

/// Why a file is not a baseline.
#[derive(Debug)]
pub enum BaselineError {
    /// Not JSON of this shape.
    Shape(serde_json::Error),
    /// The file has another version of the format.
    Version(String),
    /// Too many entries.
    Size(usize),
}

/// A leak that is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    key: String,
    kind: Kind,
    bytes: u64,
    blocks: u64,
    /// For people.
    #[serde(default)]
    frames: Vec<String>,
}

/// The leaks of an earlier check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Baseline {
    schema: String,
    leaks: Vec<Known>,
}

impl Baseline {
    /// What was found now; what the program can reach is not a leak.
    pub fn of(findings: &Findings) -> Self {
        let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
        let mut leaks: Vec<_> = leaks.map(Known::of).collect();
        // A file that is kept with the sources should not change when nothing did.
        leaks.sort_by(|a, b| (&a.key, a.bytes).cmp(&(&b.key, b.bytes)));
        Self { schema: SCHEMA.to_owned(), leaks }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        let read: Self = serde_json::from_slice(text.as_bytes()).map_err(BaselineError::Shape)?;
        if read.schema != SCHEMA {
            return Err(BaselineError::Version(read.schema));
        }
        if read.leaks.len() > MOST {
            return Err(BaselineError::Size(read.leaks.len()));
        }
        Ok(read)
    }

    /// The file.
    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Takes out of the findings what is known and did not grow.
    pub fn apply(&self, findings: &mut Findings) {
        let mut known: HashMap<&str, Amount> = HashMap::new();
        for leak in &self.leaks {
            let amount = known.entry(&leak.key).or_default();
            *amount = amount.and(Amount { bytes: leak.bytes, blocks: leak.blocks });
        }
        // Leaks of one key share what is allowed to it.
        let mut found: HashMap<String, Amount> = HashMap::new();
        for leak in &findings.leaks {
            let amount = found.entry(leak.key.clone()).or_default();
            *amount = amount.and(leak.total());
        }
        let is_known = |leak: &Leak| {
            let (Some(old), Some(new)) = (known.get(&*leak.key), found.get(&leak.key)) else {
                return false;
            };
            leak.kind != Kind::Reachable && new.bytes <= old.bytes && new.blocks <= old.blocks
        };
        let mut quiet = Amount::default();
        findings.leaks.retain(|leak| {
            let keep = !is_known(leak);
            if !keep {
                quiet = quiet.and(leak.total());
            }
            keep
        });
        findings.known = findings.known.and(quiet);
    }
}

impl Known {
    fn of(leak: &Leak) -> Self {
        let Amount { bytes, blocks } = leak.total();
        let frames = leak.frames.iter().skip(leak.cause).take(SHOWN);
        Self {
            key: leak.key.clone(),
            kind: leak.kind,
            bytes,
            blocks,
            frames: frames.map(|frame| frame.function.clone()).collect(),
        }
    }
}

impl std::fmt::Display for BaselineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shape(error) => write!(f, "it is not a valid baseline: {error}"),
            Self::Version(found) => {
                let shown: String = found.chars().take(40).filter(|c| !c.is_control()).collect();
                write!(
                    f,
                    "its schema is `{shown}`, not `{SCHEMA}`; make it anew with --update-baseline"
                )
            }
            Self::Size(leaks) => write!(f, "it has {leaks} leaks; at most {MOST} are read"),
        }
    }
}

impl std::error::Error for BaselineError {}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn what_is_known_is_not_told_again() {
        let file = Baseline::of(&findings()).text();
        let mut again = findings();
        Baseline::parse(&file).unwrap().apply(&mut again);
        let left: Vec<_> = again.leaks.iter().map(|leak| leak.kind).collect();
        assert_eq!(left, [Kind::Reachable]);
        assert_eq!(again.known.bytes, 1000 + 500 + 24 + 64);
    }

    #[test]
    fn what_grew_or_is_new_is_told() {
        let baseline = Baseline::of(&findings());
        let mut grown = findings();
        grown.leaks[0].own.blocks += 1;
        baseline.apply(&mut grown);
        assert_eq!(grown.leaks[0].kind, Kind::Direct);

        let mut fresh = findings();
        fresh.leaks[0].key = "new".to_owned();
        baseline.apply(&mut fresh);
        assert_eq!(fresh.leaks[0].key, "new");
    }

    #[test]
    fn a_shrunken_leak_stays_known() {
        let baseline = Baseline::of(&findings());
        let mut smaller = findings();
        smaller.leaks[0].own.bytes -= 1;
        baseline.apply(&mut smaller);
        assert!(smaller.leaks.iter().all(|leak| leak.kind == Kind::Reachable));
    }

    #[test]
    fn the_file_does_not_depend_on_the_order() {
        let mut turned = findings();
        turned.leaks.reverse();
        assert_eq!(Baseline::of(&turned).text(), Baseline::of(&findings()).text());
    }

    #[test]
    fn what_is_no_baseline_is_refused_with_words() {
        for text in ["", "{}", "[]", "{\"schema\": \"heapattach/baseline/9\", \"leaks\": []}"] {
            let error = Baseline::parse(text).unwrap_err().to_string();
            assert!(error.contains("baseline"), "{error}");
        }
    }

    #[test]
    fn a_baseline_made_to_hurt_costs_no_more_than_its_length() {
        // Deeper than any stack, and sums that are too large.
        assert!(Baseline::parse(&"[".repeat(1 << 20)).is_err());
        let leak =
            "{\"key\":\"a\",\"kind\":\"direct\",\"bytes\":18446744073709551615,\"blocks\":1}";
        let file = |count: usize| {
            let leaks = vec![leak; count].join(",");
            format!("{{\"schema\":\"{SCHEMA}\",\"leaks\":[{leaks}]}}")
        };
        Baseline::parse(&file(1000)).unwrap().apply(&mut findings());
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = Baseline::parse(&text);
        }
    }
}
