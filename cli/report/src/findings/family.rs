//! The processes of a family, in few lines: where leaks were found is told of each, of the others
//! which programs they ran.

use std::{collections::BTreeMap, fmt::Write};

use super::{Findings, Leak, Unchecked, checked, unchecked::program};
use crate::{CheckReport, Outcome, Report};
use heapattach_text::quantity::count;

/// So many processes are told one by one.
pub const LISTED: usize = 20;
/// Programs of a line.
const PROGRAMS: usize = 12;

impl Findings {
    /// The programs and processes that leaked it, where there is more than one that may have.
    pub fn place_of(&self, leak: &Leak) -> Option<String> {
        if self.programs.len() < 2 {
            return None;
        }
        let mut by_name: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for pid in &leak.processes {
            let name = self.programs.get(pid).map_or("?", String::as_str);
            by_name.entry(name).or_default().push(pid.to_string());
        }
        let program = |(name, pids): (&str, Vec<String>)| match pids.len() {
            0..=3 => format!("{name} ({})", pids.join(", ")),
            many => format!("{name} ({many} processes)"),
        };
        Some(listed(by_name.into_iter().map(program)))
    }
}

/// Whether there is nothing to be said of it.
pub fn is_clean(check: &CheckReport) -> bool {
    let sums = &check.sums;
    let lost = [sums.direct, sums.indirect, sums.possible].iter().any(|sum| sum.blocks > 0);
    !lost && check.doubts.is_empty() && check.notes.is_empty() && check.retained.is_empty()
}

/// The processes that nothing is to be said of.
pub fn write_clean(out: &mut String, report: &Report) {
    let is_clean = |report: &&Report| report.check.as_ref().is_some_and(is_clean);
    let (programs, processes) = by_program(checked(report).filter(is_clean));
    if processes > 0 {
        let what = if processes == 1 { "process" } else { "processes" };
        let _ = writeln!(out, "CLEAN     {} {what}: {programs}", count(processes));
    }
}

/// The processes that were not to be checked.
pub fn write_left_out(out: &mut String, report: &Report) {
    for (label, outcome) in [("ASIDE", Outcome::Aside), ("SKIPPED", Outcome::Skipped)] {
        let all = std::iter::once(report).chain(&report.processes);
        let (programs, processes) = by_program(all.filter(|report| report.outcome == outcome));
        if processes > 0 {
            let _ = writeln!(out, "{label:<9} {programs}");
        }
    }
}

/// The programs that should have been checked.
pub fn write_unchecked(out: &mut String, unchecked: &[Unchecked]) {
    for Unchecked { pid, program, why } in unchecked.iter().take(LISTED) {
        let _ = match pid {
            0 => writeln!(out, "UNCHECKED {program}: {why}"),
            pid => writeln!(out, "UNCHECKED {pid} ({program}): {why}"),
        };
    }
    let more = unchecked.len().saturating_sub(LISTED);
    if more > 0 {
        let _ = writeln!(out, "          and {more} more (--json)");
    }
}

/// The programs, most processes first, and how many processes.
fn by_program<'r>(reports: impl Iterator<Item = &'r Report>) -> (String, u64) {
    let mut programs: BTreeMap<String, u64> = BTreeMap::new();
    reports.for_each(|report| *programs.entry(program(report)).or_default() += 1);
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|&(_, number)| std::cmp::Reverse(number));
    let processes = programs.iter().map(|(_, number)| number).sum();
    let told = programs.into_iter().map(|(name, number)| match number {
        1 => name,
        number => format!("{name} x {}", count(number)),
    });
    (listed(told), processes)
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: Vec<String> = names.collect();
    let told = names.iter().take(PROGRAMS).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(PROGRAMS) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_reach::{Amount, Kind};

    fn report(pid: i32, command: &str) -> Report {
        let check = Some(CheckReport::default());
        Report { check, ..Report::new(pid, command.to_owned()) }
    }

    #[test]
    fn clean_processes_are_one_line() {
        let mut first = report(1, "/bin/sh -c x");
        first.processes = vec![report(2, "cc1 -o a"), report(3, "cc1"), report(4, "as")];
        let mut lossy = report(5, "app");
        let lost = Amount { bytes: 1, blocks: 1 };
        lossy.check.as_mut().unwrap().sums.direct = lost;
        first.processes.push(lossy);
        first.processes.push(Report { outcome: Outcome::Skipped, ..Report::new(6, "w".into()) });
        let mut out = String::new();
        write_clean(&mut out, &first);
        write_left_out(&mut out, &first);
        assert_eq!(out, "CLEAN     4 processes: cc1 x 2, as, sh\nSKIPPED   w\n");
    }

    #[test]
    fn a_leak_says_in_which_programs_unless_there_is_only_one() {
        let mut leak = Leak::new(Kind::Direct, Amount::default(), Amount::default(), vec![], 0);
        leak.processes = vec![2, 3, 9, 4, 5, 6];
        let names = [(2, "b"), (3, "b"), (9, "a"), (4, "b"), (5, "b"), (6, "c")];
        let programs = names.map(|(pid, name)| (pid, name.to_owned())).into();
        let found = Findings { programs, ..Findings::default() };
        assert_eq!(found.place_of(&leak).unwrap(), "a (9), b (4 processes), c (6)");
        assert_eq!(Findings::default().place_of(&leak), None);
    }
}
