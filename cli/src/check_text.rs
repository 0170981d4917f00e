//! What a check found, for people.

use std::fmt::{self, Write};

use crate::{
    check::{Amount, Kind},
    check_report::{CheckReport, FindingReport},
    quantity::{bytes, count, time},
    report::Report,
};

/// Findings that are shown.
const FINDINGS: usize = 20;
/// Frames of each.
const FRAMES: usize = 12;

/// The whole of it.
pub fn text(report: &Report, check: &CheckReport) -> String {
    let mut out = String::new();
    // Writing into a string cannot fail.
    let _ = write(&mut out, report, check);
    out
}

fn write(out: &mut String, report: &Report, check: &CheckReport) -> fmt::Result {
    writeln!(out, "heapattach: check of {} ({}), {}", report.pid, report.command, when(check))?;
    for (number, finding) in check.findings.iter().take(FINDINGS).enumerate() {
        writeln!(out)?;
        writeln!(out, "#{} {}", number + 1, what(finding))?;
        let frames = finding.frames.iter().skip(finding.cause);
        for frame in frames.take(FRAMES) {
            writeln!(out, "    {}", frame.place())?;
        }
        let hidden = finding.frames.len().saturating_sub(finding.cause + FRAMES);
        if hidden > 0 {
            writeln!(out, "    and {hidden} more")?;
        }
    }
    let more = check.findings.len().saturating_sub(FINDINGS) + check.more_findings;
    if more > 0 {
        writeln!(out, "\nand {more} more findings (--json has them)")?;
    }
    for site in &check.retained {
        writeln!(out, "\n{}", site.text())?;
    }
    writeln!(out)?;
    for (module, amount) in &check.modules {
        writeln!(out, "LOST BY   {module}: {}", told(*amount))?;
    }
    let sums = &check.sums;
    for (label, sum) in [
        ("DIRECT", sums.direct),
        ("INDIRECT", sums.indirect),
        ("POSSIBLE", sums.possible),
        ("REACHABLE", sums.reachable),
    ] {
        writeln!(out, "{label:<9} {}", told(sum))?;
    }
    let look = &check.look;
    let took = |us: f64| time(std::time::Duration::from_secs_f64(us.max(0.0) / 1e6));
    let expected = match look.expected_us {
        0.0 => String::new(),
        us => format!(" (expected {})", took(us)),
    };
    writeln!(
        out,
        "PAUSE     {}{expected}, by {}; {} looked through in {}",
        took(look.paused_us),
        look.method,
        bytes(look.bytes),
        took(look.took_us)
    )?;
    if let Some(why) = &look.why {
        writeln!(out, "          {why}")?;
    }
    if !check.is_complete {
        writeln!(out, "BLIND     blocks older than the attach are not judged")?;
    }
    for blind in &check.blind {
        writeln!(out, "BLIND     {blind}")?;
    }
    for doubt in &check.doubts {
        writeln!(out, "DOUBT     {doubt}")?;
    }
    writeln!(out, "{}", summary(check))
}

/// The line that scripts look for.
pub fn summary(check: &CheckReport) -> String {
    let Amount { bytes, blocks } = check.lost();
    if !check.doubts.is_empty() {
        return "SUMMARY: heapattach: nothing can be concluded, records are missing".to_owned();
    }
    if blocks == 0 {
        return "SUMMARY: heapattach: no leaks".to_owned();
    }
    format!("SUMMARY: heapattach: {bytes} byte(s) leaked in {blocks} allocation(s).")
}

fn when(check: &CheckReport) -> &'static str {
    match check.at.as_str() {
        "exit" => "at its end",
        "exit-start" => "when it began to end",
        "signal" => "at the signal",
        "time" => "when its time was over",
        _ => "when asked for",
    }
}

fn what(finding: &FindingReport) -> String {
    let own = told(finding.own);
    let kind = match finding.kind {
        Kind::Direct => "lost",
        Kind::Indirect => "lost, held by several lost blocks",
        Kind::Possible => "possibly lost",
        Kind::Reachable => "reachable",
    };
    match finding.held.blocks {
        0 => format!("{kind}: {own}"),
        _ => format!("{kind}: {own}, and {} that only that leads to", told(finding.held)),
    }
}

fn told(amount: Amount) -> String {
    let plural = if amount.blocks == 1 { "" } else { "s" };
    format!("{} in {} block{plural}", bytes(amount.bytes), count(amount.blocks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site_report::FrameReport;

    fn report() -> CheckReport {
        let frame = |name: &str| FrameReport {
            module: "/usr/bin/list".to_owned(),
            function: Some(name.to_owned()),
            ..FrameReport::default()
        };
        let finding = FindingReport {
            kind: Kind::Direct,
            own: Amount { bytes: 48, blocks: 1 },
            held: Amount { bytes: 4800, blocks: 100 },
            cause: 1,
            frames: vec![frame("malloc"), frame("make_node"), frame("main")],
        };
        let mut report = CheckReport { findings: vec![finding], ..CheckReport::default() };
        report.at = "exit".to_owned();
        report.sums.direct = Amount { bytes: 48, blocks: 1 };
        report.sums.indirect = Amount { bytes: 4800, blocks: 100 };
        report
    }

    #[test]
    fn a_finding_begins_with_who_caused_it() {
        let text = text(&Report::new(7, "list".to_owned()), &report());
        let at =
            text.find("#1 lost: 48 B in 1 block, and 4.7 KiB in 100 blocks that only").unwrap();
        let below: Vec<&str> = text[at..].lines().skip(1).take(2).map(str::trim).collect();
        assert_eq!(below, ["make_node in list", "main in list"]);
        assert!(text.ends_with("SUMMARY: heapattach: 4848 byte(s) leaked in 101 allocation(s).\n"));
    }

    #[test]
    fn nothing_is_concluded_where_records_are_missing() {
        let mut report = report();
        report.doubts.push("3 frees".to_owned());
        assert!(summary(&report).contains("nothing can be concluded"));
        assert!(summary(&CheckReport::default()).contains("no leaks"));
    }
}
