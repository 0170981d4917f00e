//! What to type next, by what was found.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Kind, Verdict};
use crate::{
    figure::clock,
    keeping::{Habit, Keeping},
    subject::Site,
};
use heapattach_ledger::{Ledger, Metric, Runtime};
use heapattach_text::quantity::{bytes, count};

/// With fewer samples every block had better be recorded.
const FEW: u64 = 30;
/// So much of what is in use is worth a check.
const NOTABLE: f64 = 0.1;
/// So many bytes that no record is of are.
const OLDER: f64 = (64 << 20) as f64;
/// So many bytes that a runtime has mapped for itself are.
const LEAST: u64 = 1 << 20;

/// A command that tells more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// As it is typed; empty if there is nothing to do.
    pub command: String,
    /// Or the view of this recording that tells more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub view: String,
    /// What it would tell.
    pub why: String,
}

/// What follows from a verdict on a whole session; the most useful first. `maps_more`: mapped memory grows.
pub fn advice(verdict: &Verdict, ledger: &Ledger, sites: &[Site], maps_more: bool) -> Vec<Advice> {
    let about = &ledger.about;
    if !about.part.is_empty() || about.outcome.is_empty() {
        return Vec::new();
    }
    let is_alive = about.outcome == "detached";
    let pid = about.pid;
    let told =
        |command: String, why: &str| Advice { command, why: why.to_owned(), ..Advice::default() };
    if about.in_use_only {
        let command = format!("heapattach -p {pid} --duration 60s");
        return Vec::from_iter(is_alive.then(|| told(command, "what is allocated and freed now")));
    }
    let mut all = Vec::new();
    if is_suspect(verdict, ledger, sites) {
        let command = match is_alive {
            true => format!("heapattach check -p {pid} --duration 10s"),
            false => "heapattach check -- CMD".to_owned(),
        };
        all.push(told(command, "which of this is unreachable?"));
    }
    if maps_more {
        let (view, why) = ("mmap".to_owned(), "all code that maps memory".to_owned());
        all.push(Advice { view, why, ..Advice::default() });
    }
    all.extend(grown_runtime(ledger));
    let records = ledger.total.sum(Metric::Allocated).records();
    let is_called = about.asked.is_none_or(|[calls, _]| calls > 0);
    if about.every > 1
        && records < FEW
        && is_called
        && !maps_more
        && verdict.kind != Kind::Incomplete
    {
        let why = match records {
            0 => "no sample was taken: this records every block".to_owned(),
            1 => "only 1 sample was taken: this records every block".to_owned(),
            n => format!("only {} samples were taken: this records every block", count(n)),
        };
        let command = match is_alive {
            true => format!("heapattach -p {pid} --all --duration 10s"),
            false => "heapattach run --all -- CMD".to_owned(),
        };
        all.push(Advice { command, why, ..Advice::default() });
    }
    if all.is_empty() && verdict.growth.is_none() {
        let time = clock(Duration::from_millis(about.lasted_ms));
        let why = format!("nothing that grows was seen in {time}; this looks for longer");
        let command = if is_alive {
            format!("heapattach -p {pid} --flow --duration 10m")
        } else {
            String::new()
        };
        all.push(Advice { command, why, ..Advice::default() });
    }
    all.extend(older(ledger).filter(|_| is_alive));
    all
}

/// What tells of memory that no record is of, since it is older, if that is most of what is resident.
fn older(ledger: &Ledger) -> Option<Advice> {
    let last = ledger.moments.iter().rev().find(|moment| moment.rss.is_some())?;
    let resident = last.rss?;
    let known = ledger.total.measure(Metric::Live).bytes.value + last.mapped as f64;
    let other = resident as f64 - known;
    (other >= OLDER && other >= 0.5 * resident as f64).then(|| Advice {
        command: format!("heapattach heap -p {}", ledger.about.pid),
        why: format!("what is in all {}, with what is older than the attach", bytes(resident)),
        ..Advice::default()
    })
}

/// What shows the memory of a runtime, if that mapped more for itself than blocks hold, and keeps most of it.
fn grown_runtime(ledger: &Ledger) -> Option<Advice> {
    let live = ledger.total.measure(Metric::Live).bytes.value;
    let is_it = |runtime: &&Runtime| {
        let (mapped, kept) = (runtime.mapped, runtime.mapped_live);
        !runtime.more.is_empty() && kept >= LEAST && kept >= mapped / 2 && kept as f64 > live
    };
    let runtimes = ledger.about.runtimes.iter().filter(is_it);
    let runtime = runtimes.max_by_key(|runtime| runtime.mapped_live)?;
    let [mapped, kept] = [runtime.mapped, runtime.mapped_live].map(bytes);
    let why = format!(
        "{} mapped {mapped} for objects of its own and keeps {kept}: this shows which",
        runtime.name
    );
    Some(Advice { command: runtime.more.clone(), why, ..Advice::default() })
}

/// Whether something grows, or is never freed and makes up a good part.
fn is_suspect(verdict: &Verdict, ledger: &Ledger, sites: &[Site]) -> bool {
    let all = ledger.total.measure(Metric::Live).bytes.value;
    verdict.kind == Kind::Grew
        || sites.iter().any(|site| {
            let live = site.weights[Metric::Live as usize].now.measure().bytes.value;
            let keeping = Keeping::of(site);
            keeping.habit == Habit::Keeps && keeping.is_never_freed && live >= NOTABLE * all
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Summary;
    use heapattach_ledger::{Moment, sample};

    #[test]
    fn what_grows_is_to_be_checked_while_it_lives() {
        let mut ledger = sample::ledger();
        let next = Summary::new(&ledger).next;
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(next[0].command, "heapattach check -p 4242 --duration 10s");
        ledger.about.outcome = "exited".to_owned();
        assert_eq!(Summary::new(&ledger).next[0].command, "heapattach check -- CMD");
        ledger.about.part = vec!["a part".to_owned()];
        assert_eq!(Summary::new(&ledger).next, []);
    }

    #[test]
    fn few_samples_call_for_every_block() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = "detached".to_owned();
        ledger.about.every = 524_288;
        let next = Summary::new(&ledger).next;
        assert!(next[0].why.starts_with("no sample was taken"), "{next:?}");
    }

    #[test]
    fn a_runtime_that_keeps_what_it_maps_is_to_be_looked_into() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = "detached".to_owned();
        ledger.about.every = 1;
        let (name, more) = ("PHP".to_owned(), "USE_ZEND_ALLOC=0 ...".to_owned());
        let (mapped, mapped_live) = (24 << 20, 20 << 20);
        let runtime = Runtime { name, more, mapped, mapped_live, ..Runtime::default() };
        ledger.about.runtimes = vec![runtime];
        let next = Summary::new(&ledger).next;
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(next[0].command, "USE_ZEND_ALLOC=0 ...");
        assert!(next[0].why.starts_with("PHP mapped 24.0 MiB for objects"), "{next:?}");
        ledger.about.runtimes[0].mapped_live = 2 << 20;
        assert!(Summary::new(&ledger).next[0].why.starts_with("nothing that grows"));
    }

    #[test]
    fn what_is_older_than_the_attach_is_to_be_looked_at_if_it_is_most() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = "detached".to_owned();
        (ledger.about.every, ledger.about.pid) = (1, 4711);
        let rss = Some(200 << 20);
        ledger.moments = vec![Moment { rss, ..Moment::default() }];
        let last = |ledger: &Ledger| Summary::new(ledger).next.pop().expect("some advice");
        assert_eq!(last(&ledger).command, "heapattach heap -p 4711");
        assert!(last(&ledger).why.contains("all 200.0 MiB"), "{:?}", last(&ledger));
        ledger.moments[0].mapped = 150 << 20;
        assert!(!last(&ledger).command.contains("heap -p"), "{:?}", last(&ledger));
        ledger.moments[0].mapped = 0;
        ledger.about.outcome = "ended".to_owned();
        assert!(!last(&ledger).command.contains("heap -p"), "it is gone");
    }

    #[test]
    fn nothing_found_is_said() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = "detached".to_owned();
        ledger.about.every = 1;
        let next = Summary::new(&ledger).next;
        assert!(next[0].why.starts_with("nothing that grows was seen in 0"), "{next:?}");
        assert!(next[0].command.ends_with("--flow --duration 10m"), "{next:?}");
    }
}
