//! JUnit's XML, which every system of continuous integration shows: one test case a leak, and one
//! for each limit that was passed by all of them together, or is not about leaks.

use std::fmt::Write;

use super::{Findings, Leak, xml::Escaped};
use crate::check::Kind;

/// A line of the list of tests.
struct Case {
    name: String,
    /// What is wrong, and where.
    failure: Option<(String, String)>,
}

/// The document.
pub fn junit(findings: &Findings) -> String {
    let cases = cases(findings);
    let program = Escaped(&findings.program);
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let sums = format!("tests=\"{}\" failures=\"{failed}\"", cases.len());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing into a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"heapattach\" {sums}>");
    let _ = writeln!(out, "  <testsuite name=\"{program}\" {sums} errors=\"0\" skipped=\"0\">");
    for Case { name, failure } in &cases {
        let name = Escaped(name);
        let _ = write!(out, "    <testcase classname=\"{program}\" name=\"{name}\"");
        let _ = match failure {
            None => writeln!(out, "/>"),
            Some((what, stack)) => writeln!(
                out,
                ">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
                Escaped(what),
                Escaped(stack)
            ),
        };
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

fn cases(findings: &Findings) -> Vec<Case> {
    let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
    let mut cases: Vec<_> = leaks.map(|leak| of_leak(findings, leak)).collect();
    let limits = findings.breaches.iter().filter(|breach| breach.leak.is_none());
    cases.extend(limits.map(|breach| {
        let what = format!("{} allows {}, found {}", breach.limit, breach.allowed, breach.found);
        Case { name: breach.limit.to_owned(), failure: Some((what, String::new())) }
    }));
    cases.extend(findings.unjudged.iter().map(|what| Case {
        name: "--max-growth".to_owned(),
        failure: Some((what.clone(), String::new())),
    }));
    if cases.is_empty() {
        // A document without a case is taken for a run that never was.
        cases.push(Case { name: "no leaks".to_owned(), failure: None });
    }
    cases
}

fn of_leak(findings: &Findings, leak: &Leak) -> Case {
    let place = leak.cause().map_or("an unknown place", |frame| &frame.function);
    let name = format!("{} at {place} [{}]", leak.kind.title(), leak.key);
    let mut stack = String::new();
    for (number, frame) in leak.frames.iter().enumerate() {
        let _ = writeln!(stack, "#{number} {frame}");
    }
    // A passed limit that names no leak is one of all of them.
    let is_failure = findings.breaches.iter().any(|breach| match &breach.leak {
        Some(key) => *key == leak.key,
        None => breach.limit == "--max-leak" && leak.kind != Kind::Possible,
    });
    Case { name, failure: is_failure.then(|| (leak.headline(), stack)) }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Limits, sample::findings},
        *,
    };

    #[test]
    fn every_leak_is_a_case_and_fails_if_a_limit_was_passed() {
        let mut found = findings();
        assert!(junit(&found).contains("tests=\"3\" failures=\"0\""), "no limit, no failure");
        found.breaches = Limits::default().judge(&found);
        let text = junit(&found);
        assert!(text.contains("tests=\"4\" failures=\"3\""), "{text}");
        assert_eq!(text.matches("<testcase ").count(), 4);
        assert_eq!(text.matches("<failure ").count(), 3);
        assert!(text.contains("#1 insert src/cache file.c:42&#10;"), "{text}");
    }

    #[test]
    fn without_leaks_there_is_a_case_that_passed() {
        let mut none = findings();
        none.leaks.clear();
        assert!(junit(&none).contains("tests=\"1\" failures=\"0\""));
    }

    #[test]
    fn names_stay_text() {
        let mut found = findings();
        found.leaks[0].frames[1].function = "a<b>&\"'\u{1b}".to_owned();
        let text = junit(&found);
        assert!(text.contains("at a&lt;b&gt;&amp;&quot;&apos;\u{fffd} ["), "{text}");
    }
}
