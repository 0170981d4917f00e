//! The processes of a family, in few lines: where leaks were found is told of each, of the others
//! which programs they ran.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Findings, Killed, Leak, Unchecked,
    alike::{alike, who},
    checked,
    unchecked::program,
};
use crate::{CheckReport, Outcome, Report};
use heapattach_reach::Amount;
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
        let mut by_name: BTreeMap<&str, Vec<(i32, Amount)>> = BTreeMap::new();
        let shares = leak.shares.iter().copied().chain(std::iter::repeat(Amount::default()));
        for (pid, share) in leak.processes.iter().zip(shares) {
            let name = self.programs.get(pid).map_or("?", String::as_str);
            by_name.entry(name).or_default().push((*pid, share));
        }
        Some(listed(by_name.into_iter().map(|(name, processes)| which(name, &processes))))
    }
}

/// Processes of one program, and what each leaked if that is the same: `50 x flaky, 200 B each`.
fn which(name: &str, processes: &[(i32, Amount)]) -> String {
    let number = processes.len();
    let is_same = processes.windows(2).all(|pair| pair[0].1.bytes == pair[1].1.bytes);
    match processes {
        [(_, share), ..] if is_same && number > 1 && share.bytes > 0 => {
            format!("{} x {name} ({} B each)", count(number as u64), count(share.bytes))
        }
        _ if number <= 3 => {
            let pids: Vec<String> = processes.iter().map(|(pid, _)| pid.to_string()).collect();
            format!("{name} ({})", pids.join(", "))
        }
        _ => format!("{name} ({number} processes)"),
    }
}

/// What is told of one process is told of all that ran the same program and leaked as much.
pub fn write_alike(out: &mut String, told: &[(&Report, &CheckReport)]) {
    let [(first, check), ..] = told else { return };
    let leaked = check.sums.direct.and(check.sums.indirect);
    let amount = match leaked.blocks {
        0 => format!("{} B possibly leaked", count(check.sums.possible.bytes)),
        _ => format!("{} B", count(leaked.bytes)),
    };
    let when = check.at.words_of_several();
    let number = count(told.len() as u64);
    let _ = writeln!(out, "CHECKED   {number} x {}, {when}: {amount} each", program(first));
}

/// The reports of processes, those together of which the same is to be said.
pub fn same<'r>(
    told: Vec<(&'r Report, &'r CheckReport)>,
) -> Vec<Vec<(&'r Report, &'r CheckReport)>> {
    alike(told, |(report, check)| {
        let sums = &check.sums;
        let leaked = [sums.direct, sums.indirect, sums.possible].map(|sum| (sum.bytes, sum.blocks));
        // What has more to say says it itself.
        let own = [check.doubts.len(), check.notes.len(), check.retained.len(), check.rounds.len()];
        let has_more = own.iter().sum::<usize>() + check.marks.len() + check.runtimes.len() > 0
            || check.growth.is_some()
            || check.why_no_growth.is_some();
        (program(report), check.at.words(), leaked, has_more.then_some(report.pid))
    })
}

/// The processes that a signal ended.
pub fn write_killed(out: &mut String, killed: &[Killed]) {
    let alike = alike(killed, |one| (&one.program, one.words(), one.is_first));
    for group in alike.iter().take(LISTED) {
        let one = group[0];
        let who = who(one.pid, &one.program, group.len());
        let _ = writeln!(out, "ENDED     {who}: {}", one.words());
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
    let groups = alike(unchecked, |one| (&one.program, &one.why));
    for group in groups.iter().take(LISTED) {
        let Unchecked { pid, program, why } = group[0];
        let _ = writeln!(out, "UNCHECKED {}: {why}", who(*pid, program, group.len()));
    }
    let more: usize = groups.iter().skip(LISTED).map(Vec::len).sum();
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
        number => format!("{} x {name}", count(number)),
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
        assert_eq!(out, "CLEAN     4 processes: 2 x cc1, as, sh\nSKIPPED   w\n");
    }

    #[test]
    fn a_leak_says_in_which_programs_unless_there_is_only_one() {
        let mut leak = Leak::new(Kind::Direct, Amount::default(), Amount::default(), vec![], 0);
        leak.processes = vec![2, 3, 9, 4, 5, 6];
        leak.shares = [1, 2, 1, 1, 1, 1].map(|bytes| Amount { bytes, blocks: 1 }).to_vec();
        let names = [(2, "b"), (3, "b"), (9, "a"), (4, "b"), (5, "b"), (6, "c")];
        let programs = names.map(|(pid, name)| (pid, name.to_owned())).into();
        let found = Findings { programs, ..Findings::default() };
        assert_eq!(found.place_of(&leak).unwrap(), "a (9), b (4 processes), c (6)");
        leak.shares[1].bytes = 1;
        assert_eq!(found.place_of(&leak).unwrap(), "a (9), 4 x b (1 B each), c (6)");
        assert_eq!(Findings::default().place_of(&leak), None);
    }

    #[test]
    fn processes_that_leaked_as_much_are_one_line_and_those_with_more_to_say_are_not() {
        let leaking = |pid, bytes| {
            let mut one = report(pid, "/opt/flaky -x");
            one.check.as_mut().unwrap().sums.direct = Amount { bytes, blocks: 1 };
            one
        };
        let mut all: Vec<Report> = (1..=50).map(|pid| leaking(pid, 200)).collect();
        all.push(leaking(51, 300));
        all[7].check.as_mut().unwrap().notes.push("a note".to_owned());
        let told = all.iter().map(|one| (one, one.check.as_ref().unwrap())).collect();
        let groups = same(told);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [49, 1, 1]);
        let mut out = String::new();
        write_alike(&mut out, &groups[0]);
        assert_eq!(out, "CHECKED   49 x flaky, when requested: 200 B each\n");
    }

    #[test]
    fn ends_and_unchecked_processes_that_are_the_same_are_told_once() {
        let killed = |pid, is_first| Killed {
            pid,
            program: "flaky".to_owned(),
            signal: "SIGSEGV".to_owned(),
            core_dumped: pid == 9,
            is_first,
        };
        let mut out = String::new();
        write_killed(
            &mut out,
            &[killed(1, true), killed(2, false), killed(3, false), killed(9, false)],
        );
        let unchecked =
            |pid, why: &str| Unchecked { pid, program: "cc1".to_owned(), why: why.to_owned() };
        write_unchecked(&mut out, &[unchecked(4, "a"), unchecked(5, "b"), unchecked(6, "a")]);
        let expected = "ENDED     1 (flaky): killed by SIGSEGV\n\
                        ENDED     2 x flaky: killed by SIGSEGV\n\
                        ENDED     9 (flaky): killed by SIGSEGV (core dumped)\n\
                        UNCHECKED 2 x cc1: a\nUNCHECKED 5 (cc1): b\n";
        assert_eq!(out, expected);
    }
}
