//! What a check has to say, of one process or of several, for people and for the machines of a
//! pipeline.
//!
//! ```text
//! report of every process -> Findings -> baseline, limits -> text, JSON, JUnit, SARIF, GitHub
//! ```
//!
//! Pure. Names are printable by the time they come here; each form escapes what it must.

mod alike;
mod baseline;
mod family;
mod github;
mod junit;
mod key;
mod killed;
mod leak;
mod limits;
mod runtime_calls;
mod sarif;
mod text;
mod unchecked;
mod xml;

pub use baseline::Baseline;
pub use github::{annotations, step_summary};
pub use junit::junit;
pub use killed::{Killed, killed};
pub use leak::{Frame, Leak};
pub use limits::{Breach, Limit, Limits, Measured};
pub use sarif::sarif;
pub use text::{Wanted, text};
pub use unchecked::{Unchecked, unchecked};

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use serde::Serialize;
use unchecked::program;

use crate::{CheckReport, OlderReport, Outcome, Quiet, Report, Sums};
use heapattach_reach::{Amount, Kind};

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Findings {
    /// The program's file name.
    pub program: String,
    /// The process id.
    pub pid: i32,
    /// All blocks by kind; what was suppressed is in none.
    pub sums: Sums,
    /// The leaks that are told, the worst first.
    pub leaks: Vec<Leak>,
    /// What found no room among them.
    pub more: Amount,
    /// Rules that kept leaks quiet.
    pub used: Vec<Quiet>,
    /// Rules of the user that suppressed nothing, in no process.
    pub unused: Vec<Quiet>,
    /// What all rules suppressed, and what that alone led to.
    pub suppressed: Amount,
    /// What was there before the end of the warm-up, and is not judged.
    pub warm: Amount,
    /// Blocks that are leaked and were allocated before the attach.
    pub older: Amount,
    /// Leaks that the baseline knows, and that did not grow.
    pub known: Amount,
    /// What lets nothing be concluded, a sentence each.
    pub doubts: Vec<String>,
    /// Programs that should have been checked.
    pub unchecked: Vec<Unchecked>,
    /// Processes that a signal ended: the first by any, others by those of crashes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<Killed>,
    /// The program of every process that was checked, by its file name.
    #[serde(skip)]
    pub programs: BTreeMap<i32, String>,
    /// Why nothing was checked, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_check: Option<NoCheck>,
    /// Whether the heap grows, by process, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub growth: Vec<String>,
    /// Why it cannot be said of some of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why_no_growth: Vec<String>,
    /// Limits that nothing can be said of, and checks that the program asked for and that were not made, a
    /// sentence each.
    pub unjudged: Vec<String>,
    /// Limits that were passed.
    pub breaches: Vec<Breach>,
    /// What the limits that are not about leaks are compared with: the sum of all processes.
    pub measured: Measured,
}

impl Findings {
    /// Of all processes that were checked.
    pub fn of(report: &Report) -> Self {
        let mut all = Self {
            program: program(report),
            pid: report.pid,
            unchecked: unchecked(report),
            killed: killed(report),
            programs: checked(report).map(|one| (one.pid, program(one))).collect(),
            ..Self::default()
        };
        let mut places: HashMap<(Kind, Vec<String>), usize> = HashMap::new();
        let mut rules: Vec<(bool, Quiet)> = Vec::new();
        let are_several = checked(report).nth(1).is_some();
        for report in checked(report) {
            let Some(check) = &report.check else { continue };
            // Of one of several nothing is concluded: that is no doubt about the others.
            if are_several && !check.doubts.is_empty() {
                let (pid, program, why) = (report.pid, program(report), check.doubts.join("; "));
                all.unchecked.push(Unchecked { pid, program, why });
                continue;
            }
            all.add(check);
            for quiet in &check.rules {
                let same = |(_, other): &&mut (bool, Quiet)| {
                    other.rule == quiet.rule && other.source == quiet.source
                };
                match rules.iter_mut().find(same) {
                    Some((_, known)) => known.amount.merge(quiet.amount),
                    None => rules.push((quiet.is_users, quiet.clone())),
                }
            }
            for finding in &check.findings {
                let leak = Leak::found(finding, report.pid);
                let calls = leak.frames.iter().map(ToString::to_string).collect();
                match places.get(&(leak.kind, calls)) {
                    Some(&place) => all.leaks[place].join(&leak),
                    None => {
                        let calls = leak.frames.iter().map(ToString::to_string).collect();
                        places.insert((leak.kind, calls), all.leaks.len());
                        all.leaks.push(leak);
                    }
                }
            }
        }
        // What grows with each check will be the worst one day.
        if checked(report).next().is_none() {
            let why = report.error.as_ref().or(report.why.as_ref());
            let why = why.map_or("there was nothing to be checked", |why| why);
            let is_fine = report.outcome == Outcome::Aside;
            all.no_check = Some(NoCheck { why: why.to_owned(), is_fine });
        }
        all.leaks.sort_by_key(|leak| {
            (leak.kind, !leak.is_growing(), std::cmp::Reverse(leak.total().bytes))
        });
        let (used, unused): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|(_, rule)| rule.amount.blocks > 0);
        all.used = used.into_iter().map(|(_, rule)| rule).collect();
        let by_user = |(is_users, rule): (bool, Quiet)| is_users.then_some(rule);
        all.unused = unused.into_iter().filter_map(by_user).collect();
        all
    }

    fn add(&mut self, check: &CheckReport) {
        self.sums.merge(&check.sums);
        self.more.merge(check.more);
        self.suppressed.merge(check.suppressed);
        self.warm.merge(check.warm);
        self.older.merge(check.older.as_ref().map(OlderReport::leaked).unwrap_or_default());
        self.doubts.extend(check.doubts.iter().cloned());
        self.unjudged.extend(check.unmade.iter().cloned());
        let Measured { growth, growing, peak, live, allocations } = &mut self.measured;
        if let Some(found) = &check.growth {
            let rate = if found.is_significant { found.bytes_per_minute.value } else { 0.0 };
            *growth = Some(growth.unwrap_or(0.0) + rate.max(0.0).round());
            *growing = Some(growing.unwrap_or(0.0) + found.unexcused().round());
            self.growth.push(found.text.clone());
        }
        if let Some(found) = &check.mapped_growth {
            let rate = found.bytes_per_minute.max(0.0).round();
            *growth = Some(growth.unwrap_or(0.0) + rate);
            *growing = Some(growing.unwrap_or(0.0) + rate);
            self.growth.push(found.text.clone());
        }
        self.why_no_growth.extend(check.why_no_growth.iter().cloned());
        *peak = peak.saturating_add(check.heap.peak);
        *live = live.saturating_add(check.heap.live);
        *allocations = allocations.saturating_add(check.heap.allocations);
    }

    /// The same, with the paths of sources below `root` as they are seen from there.
    pub fn relative_to(&self, root: &Path) -> Self {
        let mut near = self.clone();
        for frame in near.leaks.iter_mut().flat_map(|leak| &mut leak.frames) {
            if let Ok(path) = Path::new(&frame.file).strip_prefix(root) {
                frame.file = path.display().to_string();
            }
        }
        near
    }

    /// With all calls of stacks told, those of runtimes, too.
    pub fn unfold(&mut self) {
        self.leaks.iter_mut().for_each(Leak::unfold);
    }

    /// What the told leaks of these kinds come to.
    pub fn told(&self, kinds: &[Kind]) -> Amount {
        let leaks = self.leaks.iter().filter(|leak| kinds.contains(&leak.kind));
        leaks.fold(Amount::default(), |sum, leak| sum.and(leak.total()))
    }
}

/// Nothing was checked.
#[derive(Clone, Debug, Serialize)]
pub struct NoCheck {
    /// Why there is no check.
    pub why: String,
    /// Whether that is as it should be: the target's own checker checks it.
    pub is_fine: bool,
}

/// A report and those in it, as far as a check was made of them.
pub fn checked(report: &Report) -> impl Iterator<Item = &Report> {
    std::iter::once(report).chain(&report.processes).filter(|report| report.check.is_some())
}

#[cfg(test)]
mod sample;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingReport;
    use heapattach_ledger::FrameReport;

    fn report(pid: i32, function: &str, bytes: u64) -> Report {
        let frame = FrameReport { function: Some(function.to_owned()), ..FrameReport::default() };
        let finding = FindingReport {
            kind: Kind::Direct,
            stack: 0,
            own: Amount { bytes, blocks: 1 },
            held: Amount::default(),
            cause: 0,
            course: Vec::new(),
            frames: vec![frame],
        };
        let quiet = |rule: &str, blocks| Quiet {
            rule: rule.to_owned(),
            source: "x.supp:1".to_owned(),
            amount: Amount { bytes: blocks, blocks },
            is_users: true,
        };
        let used = u64::from(pid == 2);
        let rules = vec![quiet("leak:a", used), quiet("leak:b", 0)];
        let check = CheckReport { findings: vec![finding], rules, ..CheckReport::default() };
        Report { check: Some(check), ..Report::new(pid, "/opt/app --x".to_owned()) }
    }

    #[test]
    fn what_several_processes_lose_is_one_finding_a_stack() {
        let mut first = report(1, "f", 10);
        first.processes = vec![report(2, "f", 30), report(3, "g", 20)];
        let found = Findings::of(&first);
        assert_eq!(found.program, "app");
        let told: Vec<_> =
            found.leaks.iter().map(|leak| (leak.own.bytes, leak.processes.clone())).collect();
        assert_eq!(told, [(40, vec![1, 2]), (20, vec![3])]);
    }

    #[test]
    fn what_grows_with_each_check_comes_before_what_is_large() {
        let mut growing = report(1, "f", 10);
        let large = report(1, "g", 1000).check.unwrap().findings;
        let check = growing.check.as_mut().unwrap();
        check.findings.extend(large);
        let course = |bytes: [u64; 4]| bytes.map(|bytes| Amount { bytes, blocks: bytes }).to_vec();
        check.findings[0].course = course([0, 2, 5, 10]);
        check.findings[1].course = course([500, 1000, 1000, 1000]);
        let found = Findings::of(&growing);
        let told: Vec<_> = found.leaks.iter().map(|l| (l.own.bytes, l.growth())).collect();
        assert_eq!(told, [(10, (2, 2)), (1000, (1, 3))]);
    }

    #[test]
    fn a_doubt_about_one_process_is_none_about_the_others() {
        let mut first = report(1, "f", 10);
        let mut doubtful = report(2, "g", 30);
        doubtful.check.as_mut().unwrap().doubts = vec!["3 frees".to_owned()];
        first.processes = vec![doubtful];
        let found = Findings::of(&first);
        assert_eq!((found.doubts.len(), found.leaks.len()), (0, 1));
        assert_eq!((found.unchecked[0].pid, &*found.unchecked[0].why), (2, "3 frees"));
        first.processes.clear();
        first.check.as_mut().unwrap().doubts = vec!["3 frees".to_owned()];
        assert_eq!(Findings::of(&first).doubts, ["3 frees"]);
    }

    #[test]
    fn a_rule_is_unused_if_no_process_used_it() {
        let mut first = report(1, "f", 10);
        first.processes = vec![report(2, "f", 30)];
        let found = Findings::of(&first);
        assert_eq!(found.used.iter().map(|q| &*q.rule).collect::<Vec<_>>(), ["leak:a"]);
        assert_eq!(found.unused.iter().map(|q| &*q.rule).collect::<Vec<_>>(), ["leak:b"]);
    }
}
