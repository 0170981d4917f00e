//! What people and log scrapers read: the form that sanitizers made known.

use std::fmt::Write;

use super::{Findings, Leak, checked, family};
use crate::{CheckReport, Quiet, Report, suppression};
use heapattach_reach::{Amount, Kind};
use heapattach_text::quantity::{bytes, count, time};

/// The line that begins a block of its own.
const RULE: &str = "=================================================================";
/// Leaks that are told.
const LEAKS: usize = 50;
/// Calls of each.
const CALLS: usize = 32;

/// Checks whose sums are told of each.
const STEPS: usize = 12;

/// What is told besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Every rule, and what it was good for.
    pub rules: bool,
    /// Rules that would keep these leaks quiet.
    pub new_rules: bool,
    /// Leaks and what went wrong, and nothing if there is neither.
    pub only_findings: bool,
}

/// The block; leaks that can be reached are told where they are among the findings.
pub fn text(findings: &Findings, report: &Report, wanted: Wanted) -> String {
    let mut out = String::new();
    let has_leak = findings.leaks.iter().any(|leak| leak.kind != Kind::Reachable);
    let is_whole = findings.unchecked.is_empty();
    if wanted.only_findings && !is_bad(findings) {
        return out;
    }
    // Writing into a string cannot fail.
    let _ = writeln!(out, "{RULE}");
    let pid = findings.pid;
    let _ = if has_leak {
        writeln!(out, "=={pid}==ERROR: heapattach: detected memory leaks")
    } else if !findings.doubts.is_empty() {
        writeln!(out, "=={pid}==heapattach: nothing can be concluded")
    } else {
        let of = match (is_whole, findings.older.blocks) {
            (true, 0) => "",
            (true, _) => " since the attach, but older ones",
            (false, _) => " in what was checked",
        };
        writeln!(out, "=={pid}==heapattach: no leaks{of}")
    };
    for leak in findings.leaks.iter().take(LEAKS) {
        write_leak(&mut out, leak, findings.place_of(leak));
    }
    let more = findings.leaks.len().saturating_sub(LEAKS);
    if more > 0 {
        let _ = writeln!(out, "\nand {more} more (--json has them)");
    }
    write_rules(&mut out, findings, wanted);
    out.push('\n');
    if !wanted.only_findings {
        write_processes(&mut out, report);
    }
    for doubt in findings.doubts.iter().filter(|_| wanted.only_findings) {
        let _ = writeln!(out, "DOUBT     {doubt}");
    }
    family::write_killed(&mut out, &findings.killed);
    family::write_unchecked(&mut out, &findings.unchecked);
    for breach in &findings.breaches {
        let of = breach.leak.as_ref().map(|key| format!(" by leak {key}")).unwrap_or_default();
        let (allowed, found) = (breach.allowed, breach.found);
        let _ = writeln!(out, "LIMIT     {} allows {allowed}, found {found}{of}", breach.limit);
    }
    for line in &findings.unjudged {
        let _ = writeln!(out, "LIMIT     {line}");
    }
    if findings.known.blocks > 0 {
        let new = findings.told(&[Kind::Direct, Kind::Indirect, Kind::Possible]);
        let (known, new) = (count(findings.known.bytes), count(new.bytes));
        let _ = writeln!(out, "KNOWN     {known} B by the baseline, new {new} B");
    }
    out += &summary(findings);
    out
}

/// Whether there is anything that has to be told.
fn is_bad(findings: &Findings) -> bool {
    let Findings { leaks, doubts, unchecked, killed, unjudged, breaches, .. } = findings;
    let told = [leaks.len(), doubts.len(), unchecked.len(), unjudged.len(), breaches.len()];
    told.into_iter().any(|count| count > 0)
        // A test may make a child crash on purpose.
        || killed.iter().any(|one| one.is_first)
}

/// One in full; of several, those that there is something to be said of.
fn write_processes(out: &mut String, report: &Report) {
    let all = checked(report).filter_map(|report| Some((report, report.check.as_ref()?)));
    let all: Vec<_> = all.collect();
    let is_alone = all.len() == 1;
    let told = all.into_iter().filter(|(_, check)| is_alone || !family::is_clean(check));
    let told = family::same(told.collect());
    for group in told.iter().take(family::LISTED) {
        match group[..] {
            [(report, check)] => write_check(out, report, check),
            _ => family::write_alike(out, group),
        }
    }
    let more: usize = told.iter().skip(family::LISTED).map(Vec::len).sum();
    if more > 0 {
        let _ = writeln!(out, "          and {more} more (--json has them)");
    }
    if !is_alone {
        family::write_clean(out, report);
    }
    family::write_left_out(out, report);
}

fn write_leak(out: &mut String, leak: &Leak, place: Option<String>) {
    let place = place.map(|place| format!(", in {place},")).unwrap_or_default();
    let _ = writeln!(out, "\n{}", leak.title());
    let _ = writeln!(out, "{}{place} allocated from:", leak.headline());
    if leak.course.len() > 1 {
        let from = leak.course.len().saturating_sub(STEPS);
        let before = if from > 0 { "... " } else { "" };
        let told: Vec<_> = leak.course[from..].iter().map(|sum| sum.bytes.to_string()).collect();
        let (grew, steps) = leak.growth();
        let _ = writeln!(
            out,
            "    (by check: {before}{} byte(s); grew in {grew} of {steps} steps)",
            told.join(" ")
        );
    }
    let calls = leak.told_calls();
    let more = calls.len().saturating_sub(CALLS);
    for (number, frame) in calls.take(CALLS) {
        let _ = writeln!(out, "    #{number} {:#x} in {frame}", frame.offset);
    }
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
}

fn write_rules(out: &mut String, findings: &Findings, wanted: Wanted) {
    if wanted.rules {
        write_used(out, &findings.used);
    }
    if !findings.unused.is_empty() {
        let _ = writeln!(out, "\nSuppressions that match no leak, and can be removed:");
    }
    for Quiet { rule, source, .. } in &findings.unused {
        let _ = writeln!(out, "    {rule} ({source})");
    }
    if wanted.new_rules && findings.leaks.iter().any(|leak| leak.kind != Kind::Reachable) {
        let _ = writeln!(out, "\n# Suppressions for these leaks:");
        let mut lines: Vec<String> = Vec::new();
        for leak in findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable) {
            let line = leak.cause().map(|frame| suppression::line_for(&frame.function));
            if let Some(line) = line.filter(|line| !lines.contains(line)) {
                let _ = writeln!(out, "{line}");
                lines.push(line);
            }
        }
    }
    let amounts = [
        ("Suppressed", findings.suppressed),
        ("From before the end of the warm-up", findings.warm),
    ];
    for (what, Amount { bytes, blocks }) in amounts {
        if blocks > 0 {
            let _ = writeln!(out, "\n{what}: {bytes} byte(s) in {blocks} object(s)");
        }
    }
}

fn write_used(out: &mut String, rules: &[Quiet]) {
    if rules.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nSuppressions used:\n  count      bytes template");
    for quiet in rules {
        let Amount { bytes, blocks } = quiet.amount;
        let _ = writeln!(out, "{blocks:>7} {bytes:>10} {} ({})", quiet.rule, quiet.source);
    }
}

/// How a process was looked at, and what that cannot see.
fn write_check(out: &mut String, report: &Report, check: &CheckReport) {
    let when = check.at.words();
    let _ = writeln!(out, "CHECKED   {} ({}), {when}", report.pid, report.command);
    for site in &check.retained {
        let _ = writeln!(out, "{}", site.text());
    }
    let from = check.rounds.len().saturating_sub(STEPS);
    for round in &check.rounds[from..] {
        let _ = writeln!(out, "CHECK     {}", round.text());
    }
    for mark in &check.marks {
        let at = time(std::time::Duration::from_millis(mark.at_ms));
        let _ = writeln!(out, "MARK      {at}: {}", mark.why);
    }
    for (module, amount) in &check.modules {
        let _ = writeln!(out, "LEAKED BY {module}: {}", told(*amount));
    }
    let sums = &check.sums;
    for (label, sum) in [
        ("DIRECT", sums.direct),
        ("INDIRECT", sums.indirect),
        ("POSSIBLE", sums.possible),
        ("REACHABLE", sums.reachable),
    ] {
        let _ = writeln!(out, "{label:<9} {}", told(sum));
    }
    let look = &check.look;
    let took = |us: f64| time(std::time::Duration::from_secs_f64(us.max(0.0) / 1e6));
    let expected = match look.expected_us {
        0.0 => String::new(),
        us => format!(" (expected {})", took(us)),
    };
    let beyond = match look.paused_us - look.limit_us {
        over if look.limit_us > 0.0 && over > 0.0 => format!(
            ", {} longer than --max-pause: for a system call, or for want of a processor",
            took(over)
        ),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "PAUSE     {}{expected}{beyond}, by {}; {} looked through in {}",
        took(look.paused_us),
        look.method,
        bytes(look.bytes),
        took(look.took_us)
    );
    if let Some(growth) = &check.growth {
        let _ = writeln!(out, "GROWTH    {}", growth.text);
    }
    if let Some(growth) = &check.mapped_growth {
        let _ = writeln!(out, "GROWTH    {}", growth.text);
    }
    if let Some(why) = &check.why_no_growth {
        let _ = writeln!(out, "GROWTH    cannot be judged: {why}");
    }
    if let Some(why) = &look.why {
        let _ = writeln!(out, "          {why}");
    }
    match &check.older {
        Some(older) => {
            for line in older.lines() {
                let _ = writeln!(out, "OLDER     {line}");
            }
        }
        None if !check.is_complete => {
            let _ = writeln!(out, "BLIND     blocks older than the attach are not judged");
        }
        None => {}
    }
    for (label, lines) in
        [("RUNTIME", &check.runtimes), ("BLIND", &check.blind), ("NOTE", &check.notes)]
            .into_iter()
            .chain([("DOUBT", &check.doubts)])
    {
        for line in lines {
            let _ = writeln!(out, "{label:<9} {line}");
        }
    }
}

fn told(amount: Amount) -> String {
    let plural = if amount.blocks == 1 { "" } else { "s" };
    let blocks = count(amount.blocks);
    format!("{} in {blocks} block{plural}", bytes(amount.bytes))
}

/// The line that is looked for.
fn summary(findings: &Findings) -> String {
    if !findings.doubts.is_empty() {
        return "SUMMARY: heapattach: nothing can be concluded, not everything was seen\n"
            .to_owned();
    }
    let lost = findings.told(&[Kind::Direct, Kind::Indirect]);
    let possible = findings.told(&[Kind::Possible]);
    let mut line = format!(
        "SUMMARY: heapattach: {} byte(s) leaked in {} allocation(s)",
        lost.bytes, lost.blocks
    );
    if possible.blocks > 0 {
        line += &format!(
            ", {} byte(s) possibly leaked in {} allocation(s)",
            possible.bytes, possible.blocks
        );
    }
    match findings.unchecked.len() {
        0 => line + ".\n",
        many => line + &format!("; not all was checked ({many} UNCHECKED).\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    fn of(findings: &Findings, wanted: Wanted) -> String {
        text(findings, &Report::new(4711, "app --x".to_owned()), wanted)
    }

    #[test]
    fn it_reads_as_sanitizers_do() {
        let text = of(&findings(), Wanted { rules: true, ..Wanted::default() });
        assert!(text.contains("==4711==ERROR: heapattach: detected memory leaks"));
        let begins = "\ninsert (cache file.c:42): 1 500 B in 15 blocks\nDirect leak of 1000 byte(s) in 10 object(s)";
        assert!(text.contains(begins), "{text}");
        assert!(text.contains("    #1 0x2000 in insert src/cache file.c:42"), "{text}");
        assert!(text.contains("      3         30 leak:known (x.supp:1)"), "{text}");
        let last = text.lines().last().unwrap();
        let whole = "SUMMARY: heapattach: 1524 byte(s) leaked in 16 allocation(s), \
                     64 byte(s) possibly leaked in 1 allocation(s).";
        assert_eq!(last, whole);
    }

    #[test]
    fn rules_are_told_where_that_is_asked_for_and_unused_ones_always() {
        let text = of(&findings(), Wanted { new_rules: true, ..Wanted::default() });
        assert!(!text.contains("leak:known"), "{text}");
        let unused =
            "\nSuppressions that match no leak, and can be removed:\n    leak:nothing (x.supp:2)\n";
        assert!(text.contains(unused), "{text}");
        assert!(text.contains("these leaks:\nleak:insert\nleak:share\nleak:array\n"), "{text}");
    }

    #[test]
    fn a_stop_that_was_longer_than_it_should_be_says_by_how_much_and_for_what() {
        let pause = |paused_us: f64, limit_us: f64| {
            let mut check = CheckReport::default();
            let look = &mut check.look;
            (look.expected_us, look.paused_us, look.limit_us) = (1000.0, paused_us, limit_us);
            let mut out = String::new();
            write_check(&mut out, &Report::new(4711, "app".to_owned()), &check);
            out.lines().find(|line| line.starts_with("PAUSE")).unwrap_or_default().to_owned()
        };
        let beyond = "PAUSE     7.50 ms (expected 1.00 ms), 2.50 ms longer than --max-pause: for a system \
                      call, or for want of a processor, by ";
        assert!(pause(7500.0, 5000.0).starts_with(beyond), "{}", pause(7500.0, 5000.0));
        for (paused, limit) in [(5000.0, 5000.0), (4000.0, 5000.0), (9000.0, 0.0)] {
            assert!(!pause(paused, limit).contains("longer"), "{paused} of {limit}");
        }
    }

    #[test]
    fn a_quiet_check_tells_leaks_and_what_went_wrong_and_nothing_else() {
        let quiet = Wanted { only_findings: true, ..Wanted::default() };
        let mut some = findings();
        let text = of(&some, quiet);
        assert!(text.contains("\ninsert (cache file.c:42): 1 500 B in 15 blocks\n"), "{text}");
        assert!(text.contains("\nSUMMARY: ") && !text.contains("CHECKED"), "{text}");
        some.leaks.clear();
        assert_eq!(of(&some, quiet), "");
        some.doubts.push("3 frees".to_owned());
        assert!(of(&some, quiet).contains("\nDOUBT     3 frees\n"));
    }

    #[test]
    fn what_the_baseline_knows_is_told_beside_what_is_new() {
        let mut some = findings();
        some.known = Amount { bytes: 192, blocks: 2 };
        let text = of(&some, Wanted::default());
        assert!(text.contains("\nKNOWN     192 B by the baseline, new 1 588 B\nSUMMARY"), "{text}");
        some.leaks.clear();
        let text = of(&some, Wanted::default());
        assert!(text.contains("\nKNOWN     192 B by the baseline, new 0 B\nSUMMARY"), "{text}");
    }

    #[test]
    fn no_leaks_are_no_error_and_doubts_no_result() {
        let mut none = findings();
        none.leaks.clear();
        let text = of(&none, Wanted::default());
        assert!(!text.contains("ERROR") && text.contains("no leaks"));
        assert!(text.ends_with("SUMMARY: heapattach: 0 byte(s) leaked in 0 allocation(s).\n"));
        none.doubts.push("3 frees".to_owned());
        let text = of(&none, Wanted::default());
        assert!(text.contains("nothing can be concluded") && !text.contains("no leaks"), "{text}");
    }
}
