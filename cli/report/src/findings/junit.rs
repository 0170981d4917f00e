//! JUnit's XML, which every system of continuous integration shows: one test case a leak, with the
//! program that leaked it as its class; one for each program that should have been checked, and one
//! for each limit that was passed by all leaks together, or is not about leaks.

use std::fmt::Write;

use super::{Findings, Leak, Limit, NoCheck, alike::alike, xml::Escaped};
use heapattach_reach::Kind;

/// A line of the list of tests.
struct Case {
    program: String,
    name: String,
    outcome: Outcome,
}

/// How it went.
enum Outcome {
    Passed,
    /// What is wrong, and where.
    Failed(String, String),
    /// Why nothing can be said.
    Broken(String),
    /// Why no check was needed.
    Skipped(String),
}

/// The document.
pub fn junit(findings: &Findings) -> String {
    let cases = cases(findings);
    let program = Escaped(&findings.program);
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(..)));
    let broken = count(|outcome| matches!(outcome, Outcome::Broken(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::Skipped(_)));
    let tests = cases.len();
    let sums = format!("tests=\"{tests}\" failures=\"{failed}\" errors=\"{broken}\"");
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing into a string cannot fail.
    let _ = writeln!(out, "<testsuites name=\"heapattach\" {sums}>");
    let _ = writeln!(out, "  <testsuite name=\"{program}\" {sums} skipped=\"{skipped}\">");
    for Case { program, name, outcome } in &cases {
        let (program, name) = (Escaped(program), Escaped(name));
        let _ = write!(out, "    <testcase classname=\"{program}\" name=\"{name}\"");
        let (element, what, stack) = match outcome {
            Outcome::Passed => {
                out += "/>\n";
                continue;
            }
            Outcome::Failed(what, stack) => ("failure", what, stack.as_str()),
            Outcome::Broken(why) => ("error", why, ""),
            Outcome::Skipped(why) => ("skipped", why, ""),
        };
        let (what, stack) = (Escaped(what), Escaped(stack));
        let _ = writeln!(
            out,
            ">\n      <{element} message=\"{what}\">{stack}</{element}>\n    </testcase>"
        );
    }
    out += "  </testsuite>\n</testsuites>\n";
    out
}

fn cases(findings: &Findings) -> Vec<Case> {
    let program = &findings.program;
    if let Some(NoCheck { why, is_fine }) = &findings.no_check {
        let of = if *is_fine { Outcome::Skipped } else { Outcome::Broken };
        let (program, name) = (program.clone(), "check".to_owned());
        let case = Case { program, name, outcome: of(why.clone()) };
        return std::iter::once(case).chain(ends(findings)).collect();
    }
    let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
    let mut cases: Vec<_> = leaks.map(|leak| of_leak(findings, leak)).collect();
    let limits = findings.breaches.iter().filter(|breach| breach.leak.is_none());
    cases.extend(limits.map(|breach| {
        let what = format!("{} allows {}, found {}", breach.limit, breach.allowed, breach.found);
        let is_growth = breach.limit.is_growth();
        let more = if is_growth { findings.growth.join("\n") } else { String::new() };
        let (program, name) = (program.clone(), breach.limit.to_string());
        Case { program, name, outcome: Outcome::Failed(what, more) }
    }));
    let unchecked = alike(&findings.unchecked, |one| (&one.program, &one.why));
    cases.extend(unchecked.iter().map(|group| Case {
        program: group[0].program.clone(),
        name: format!("not checked{}", times(group.len())),
        outcome: Outcome::Broken(group[0].why.clone()),
    }));
    cases.extend(ends(findings));
    let unclear = findings.unjudged.iter().map(|what| ("growth", what));
    let unclear = unclear.chain(findings.doubts.iter().map(|what| ("check", what)));
    cases.extend(unclear.map(|(name, what)| Case {
        program: program.clone(),
        name: name.to_owned(),
        outcome: Outcome::Broken(what.clone()),
    }));
    if cases.is_empty() {
        // A document without a case is taken for a run that never was.
        let name = "no leaks".to_owned();
        cases.push(Case { program: program.clone(), name, outcome: Outcome::Passed });
    }
    cases
}

/// How the program ended, if a signal killed it; a crash of a child may be what is tested.
fn ends(findings: &Findings) -> impl Iterator<Item = Case> {
    let alike = alike(&findings.killed, |one| (&one.program, one.words(), one.is_first));
    alike.into_iter().map(|group| {
        let one = group[0];
        let name = format!("end{}", times(group.len()));
        let outcome = match one.is_first {
            true => Outcome::Broken(one.words()),
            false => Outcome::Skipped(one.words()),
        };
        Case { program: one.program.clone(), name, outcome }
    })
}

fn times(number: usize) -> String {
    if number > 1 { format!(" ({number} processes)") } else { String::new() }
}

fn of_leak(findings: &Findings, leak: &Leak) -> Case {
    let place = leak.cause().map_or("an unknown place", |frame| &frame.function);
    let name = format!("{} at {place} [{}]", leak.kind.title(), leak.key);
    let mut stack = leak.headline();
    if let Some(place) = findings.place_of(leak) {
        let _ = write!(stack, ", in {place}");
    }
    stack.push('\n');
    for (number, frame) in leak.told_calls() {
        let _ = writeln!(stack, "#{number} {frame}");
    }
    // A passed limit that names no leak is one of all of them.
    let is_failure = findings.breaches.iter().any(|breach| match &breach.leak {
        Some(key) => *key == leak.key,
        None => breach.limit == Limit::Leak && leak.kind != Kind::Possible,
    });
    // Of several programs, the first that leaked it.
    let program = leak.processes.first().and_then(|pid| findings.programs.get(pid));
    let program = program.unwrap_or(&findings.program).clone();
    let outcome = match is_failure {
        true => Outcome::Failed(leak.title(), stack),
        false => Outcome::Passed,
    };
    Case { program, name, outcome }
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
    fn growth_is_a_case_that_says_who_grows() {
        let mut found = findings();
        found.growth = vec!["insert grows".to_owned()];
        found.measured.growing = Some(7.0);
        let limits = Limits { leak: Some(u64::MAX), no_growing: true, ..Limits::default() };
        found.breaches = limits.judge(&found);
        let case = "<testcase classname=\"app\" name=\"--fail-on growing\">";
        assert!(junit(&found).contains(case), "{}", junit(&found));
        assert!(junit(&found).contains("found 7\">insert grows</failure>"), "{}", junit(&found));
    }

    #[test]
    fn what_was_not_checked_is_no_success() {
        let mut none = findings();
        none.leaks.clear();
        none.doubts.push("3 frees".to_owned());
        assert!(junit(&none).contains("<error message=\"3 frees\">"), "{}", junit(&none));
        for (is_fine, element) in [(false, "error"), (true, "skipped")] {
            none.no_check = Some(NoCheck { why: "no room".to_owned(), is_fine });
            let text = junit(&none);
            assert!(text.contains("tests=\"1\" failures=\"0\""), "{text}");
            assert!(text.contains(&format!("<{element} message=\"no room\">")), "{text}");
        }
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
