//! What GitHub's runners understand: annotations on standard output, and a page for the step.

use std::fmt::Write;

use super::{
    Findings,
    alike::{alike, who},
};
use heapattach_reach::Kind;
use heapattach_text::quantity::counted;

/// More annotations of a step are not shown there.
const MOST: usize = 10;
/// Rows of the page's table.
const ROWS: usize = 50;

/// Lines that put the leaks beside the source.
pub fn annotations(findings: &Findings) -> String {
    let mut out = String::new();
    let broken = findings.no_check.iter().filter(|no_check| !no_check.is_fine);
    for why in broken.map(|no_check| &no_check.why).chain(&findings.doubts) {
        let _ = writeln!(out, "::error title=Not checked::{}", data(why));
    }
    for group in alike(&findings.killed, |one| (&one.program, one.words(), one.is_first)) {
        let (one, number) = (group[0], group.len());
        let level = if one.is_first { "error" } else { "notice" };
        let text = format!("{}: {}", who(one.pid, &one.program, number), one.words());
        let _ = writeln!(out, "::{level} title=Ended by a signal::{}", data(&text));
    }
    let leaks = findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable);
    for leak in leaks.take(MOST) {
        let level = if leak.kind == Kind::Possible { "warning" } else { "error" };
        let calls: Vec<_> = leak.told_calls().filter(|(call, _)| *call >= leak.cause).collect();
        let mut properties = format!("title={}", property(&leak.title()));
        if let Some(frame) = calls.iter().map(|(_, frame)| frame).find(|f| !f.file.is_empty()) {
            let _ = write!(properties, ",file={}", property(&frame.file));
            if let Some(line) = frame.line {
                let _ = write!(properties, ",line={line}");
            }
        }
        let stack: Vec<_> = calls.iter().map(|(_, frame)| frame.to_string()).collect();
        let place = findings.place_of(leak).map(|place| format!(", in {place}"));
        let place = place.unwrap_or_default();
        let message = format!("{}{place}\n{}", leak.headline(), stack.join("\n"));
        let _ = writeln!(out, "::{level} {properties}::{}", data(&message));
    }
    out
}

/// The page of the step, in Markdown.
pub fn step_summary(findings: &Findings) -> String {
    let lost = findings.told(&[Kind::Direct, Kind::Indirect]);
    let mut out = format!("### Leaks of `{}`\n\n", inline(&findings.program));
    if let Some(no_check) = &findings.no_check {
        let _ = writeln!(out, "Not checked: {}", inline(&no_check.why));
        return out;
    }
    for doubt in &findings.doubts {
        let _ = writeln!(out, "Nothing can be concluded: {}\n", inline(doubt));
    }
    if findings.leaks.iter().all(|leak| leak.kind == Kind::Reachable) {
        out += "No leaks.\n";
    } else {
        let _ =
            writeln!(out, "{} bytes leaked in {}.\n", lost.bytes, counted(lost.blocks, "block"));
        out += "| kind | bytes | blocks | allocated by |\n|---|---:|---:|---|\n";
        for leak in findings.leaks.iter().filter(|leak| leak.kind != Kind::Reachable).take(ROWS) {
            let place = leak.cause().map(ToString::to_string).unwrap_or_default();
            let total = leak.total();
            let _ = writeln!(
                out,
                "| {} | {} | {} | `{}` |",
                leak.kind.name(),
                total.bytes,
                total.blocks,
                inline(&place)
            );
        }
    }
    for one in findings.killed.iter().filter(|one| one.is_first) {
        let _ = writeln!(out, "\n`{}` was {}.", inline(&one.program), one.words());
    }
    for group in alike(&findings.unchecked, |one| (&one.program, &one.why)) {
        let (one, times) = (group[0], group.len());
        let times = if times > 1 { format!(" ({times} processes)") } else { String::new() };
        let (program, why) = (inline(&one.program), plain(&one.why));
        let _ = writeln!(out, "\n`{program}`{times} was not checked: {why}.");
    }
    for breach in &findings.breaches {
        let _ = writeln!(
            out,
            "\n**{}** allows {}, found {}.",
            breach.limit, breach.allowed, breach.found
        );
    }
    for line in findings.unjudged.iter().chain(&findings.growth) {
        let _ = writeln!(out, "\n{}", inline(line));
    }
    out
}

/// Text that stays inside of a code span in a table.
fn inline(text: &str) -> String {
    let clean = |c: char| if c.is_control() || c == '`' { ' ' } else { c };
    text.chars().map(clean).collect::<String>().replace('|', "\\|")
}

/// Text that is not Markdown.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || " ,;:()/-+=%'_".contains(c);
    text.chars().map(|c| if is_plain(c) { c } else { ' ' }).collect()
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::{super::sample::findings, *};

    #[test]
    fn an_annotation_is_one_line_with_its_place() {
        let text = annotations(&findings());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with(
            "::error title=insert (cache file.c%3A42)%3A 1 500 B in 15 blocks,file=src/cache file.c,line=42::"
        ));
        assert!(lines[0].contains("%0A"));
        assert!(lines[2].starts_with("::warning "));
    }

    #[test]
    fn a_hostile_name_ends_no_property_and_no_line() {
        let mut findings = findings();
        findings.leaks[0].frames[1].file = "a,line=1::x\n::stop".to_owned();
        let text = annotations(&findings);
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("file=a%2Cline=1%3A%3Ax%0A%3A%3Astop,line=42::"), "{text}");
        findings.leaks[0].frames[1].function = "a`b|c\nd".to_owned();
        assert!(step_summary(&findings).contains("`a b\\|c d"), "{}", step_summary(&findings));
    }

    #[test]
    fn what_was_not_checked_is_an_error() {
        let why = "a\nb".to_owned();
        let no_check = Some(super::super::NoCheck { why, is_fine: false });
        let found = Findings { no_check, ..Findings::default() };
        assert_eq!(annotations(&found), "::error title=Not checked::a%0Ab\n");
        assert!(step_summary(&found).contains("Not checked: a b"));
    }

    #[test]
    fn there_are_not_more_than_are_shown() {
        let mut findings = findings();
        findings.leaks = vec![findings.leaks[0].clone(); 40];
        assert_eq!(annotations(&findings).lines().count(), MOST);
    }
}
