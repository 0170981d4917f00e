//! What to type next, by what was found.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Kind, Verdict, outside, sentences};
use crate::{
    figure::clock,
    keeping::{Habit, Keeping},
    subject::Site,
};
use heapattach_ledger::{About, Ledger, Metric, Outcome, Runtime};
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
    let is_alive = about.outcome == Outcome::Detached.into();
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
        let command = match (is_alive, about.counted_by.is_empty()) {
            (true, true) => Some(format!("heapattach -p {pid} --all --duration 10s")),
            (false, true) => Some("heapattach run --all -- CMD".to_owned()),
            // A rate that the runtime of Go has is never changed while it runs.
            (false, false) => Some("GODEBUG=memprofilerate=1 heapattach run -- CMD".to_owned()),
            (true, false) => None,
        };
        all.extend(command.map(|command| Advice { command, why, ..Advice::default() }));
    }
    // A rule on growth has told of resident memory already.
    if verdict.growth.is_none() && outside::retained(ledger).is_some() {
        all.push(retained(ledger, is_alive));
    }
    if all.is_empty() && verdict.growth.is_none() {
        all.push(nothing(verdict, ledger, is_alive));
        let (view, why) = ("temporary".to_owned(), "which code allocates what is freed soon");
        let told = sentences::turnover(ledger).map(|_| Advice {
            view,
            why: why.to_owned(),
            ..Advice::default()
        });
        all.extend(told);
    }
    all.extend(older(ledger).filter(|_| is_alive));
    all
}

/// What shows which blocks keep memory resident that was freed.
fn retained(ledger: &Ledger, is_alive: bool) -> Advice {
    let pid = match is_alive {
        true => ledger.about.pid.to_string(),
        // It is to be started again: nothing tells of the heap of a process that ended.
        false => "PID".to_owned(),
    };
    // A runtime that counts for itself has a heap without such blocks.
    let (view, why) = match ledger.about.counted_by.is_empty() {
        true => (" --view pins", "which blocks keep free memory resident?"),
        false => ("", "what is free and resident?"),
    };
    let before = if is_alive { "" } else { "while it runs: " };
    let command = format!("heapattach heap -p {pid}{view}");
    Advice { command, why: format!("{before}{why}"), ..Advice::default() }
}

/// That nothing was found, and what would tell more of a process that goes on.
fn nothing(verdict: &Verdict, ledger: &Ledger, is_alive: bool) -> Advice {
    let About { pid, from_start, lasted_ms, .. } = ledger.about;
    let time = clock(Duration::from_millis(lasted_ms));
    let (command, view, why) = if is_alive {
        let why = format!("nothing that grows was seen in {time}; this looks for longer");
        (format!("heapattach -p {pid} --flow --duration 10m"), "", why)
    } else if verdict.kind == Kind::Returned {
        let why = "nothing is in use at its end; this tells what was at its peak";
        (String::new(), "peak", why.to_owned())
    } else if from_start {
        (String::new(), "", format!("nothing that grows was seen in all its {time}"))
    } else {
        (String::new(), "", format!("nothing that grows was seen in its last {time}"))
    };
    Advice { command, why, view: view.to_owned() }
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
    use heapattach_profile::Sum;

    #[test]
    fn what_grows_is_to_be_checked_while_it_lives() {
        let mut ledger = sample::ledger();
        let next = Summary::new(&ledger).next;
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(next[0].command, "heapattach check -p 4242 --duration 10s");
        ledger.about.outcome = Outcome::Exited.into();
        assert_eq!(Summary::new(&ledger).next[0].command, "heapattach check -- CMD");
        ledger.about.part = vec!["a part".to_owned()];
        assert_eq!(Summary::new(&ledger).next, []);
    }

    #[test]
    fn few_samples_call_for_every_block() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = Outcome::Detached.into();
        ledger.about.every = 524_288;
        let next = Summary::new(&ledger).next;
        assert!(next[0].why.starts_with("no sample was taken"), "{next:?}");
    }

    #[test]
    fn a_runtime_that_keeps_what_it_maps_is_to_be_looked_into() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = Outcome::Detached.into();
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
        ledger.about.outcome = Outcome::Detached.into();
        (ledger.about.every, ledger.about.pid) = (1, 4711);
        let rss = Some(200 << 20);
        ledger.moments = vec![Moment { rss, ..Moment::default() }];
        let last = |ledger: &Ledger| Summary::new(ledger).next.pop().expect("some advice");
        assert_eq!(last(&ledger).command, "heapattach heap -p 4711");
        assert!(last(&ledger).why.contains("all 200.0 MiB"), "{:?}", last(&ledger));
        ledger.moments[0].mapped = 150 << 20;
        assert!(!last(&ledger).command.contains("heap -p"), "{:?}", last(&ledger));
        ledger.moments[0].mapped = 0;
        ledger.about.outcome = "ended".to_owned().into();
        assert!(!last(&ledger).command.contains("heap -p"), "it is gone");
    }

    /// A session in which the heap grew by 100 MiB, of which at most 80 were in use at once, and `live` are.
    fn grown(live: u64) -> Ledger {
        let pages = |(at_ms, bytes): (u64, u64)| Moment {
            at_ms,
            rss: Some(bytes),
            anonymous: Some(bytes),
            ..Moment::default()
        };
        let moments = [(0, 4 << 20), (4000, 104 << 20)].map(pages).into();
        let mut ledger = Ledger { moments, ..Ledger::default() };
        ledger.about.outcome = Outcome::Detached.into();
        (ledger.about.every, ledger.about.pid, ledger.about.lasted_ms) = (1, 4711, 4000);
        let peak = f64::from(80 << 20);
        ledger.peak = heapattach_profile::Estimate { value: peak, low: peak, high: peak };
        ledger.total.set(Metric::Allocated, &Sum::exact(100 << 20, 1));
        ledger.total.set(Metric::Live, &Sum::exact(live, 1));
        ledger
    }

    #[test]
    fn freed_memory_that_stays_resident_is_to_be_looked_at_by_what_keeps_it() {
        let mut ledger = grown(8 << 20);
        let next = Summary::new(&ledger).next;
        assert_eq!(next[0].command, "heapattach heap -p 4711 --view pins");
        assert_eq!(next[0].why, "which blocks keep free memory resident?");
        assert!(next.iter().all(|one| !one.why.contains("nothing that grows")), "{next:?}");
        ledger.about.outcome = Outcome::Exited.into();
        let next = Summary::new(&ledger).next;
        assert_eq!(next[0].command, "heapattach heap -p PID --view pins");
        assert!(next[0].why.starts_with("while it runs: which blocks"), "{next:?}");
        ledger.about.outcome = Outcome::Detached.into();
        ledger.about.counted_by = "go1.24.1".to_owned();
        assert_eq!(Summary::new(&ledger).next[0].command, "heapattach heap -p 4711");
        let next = Summary::new(&grown(70 << 20)).next;
        assert!(next.iter().all(|one| !one.command.contains("pins")), "it is in use: {next:?}");
    }

    #[test]
    fn nothing_looks_for_longer_at_a_program_that_ended() {
        let mut ledger = grown(70 << 20);
        ledger.about.outcome = Outcome::Exited.into();
        let only = |ledger: &Ledger| {
            let next = Summary::new(ledger).next;
            let [one] = &next[..] else { panic!("one: {next:?}") };
            one.clone()
        };
        let told = only(&ledger);
        assert_eq!(told.why, "nothing that grows was seen in its last 4.0 s");
        assert_eq!((told.command.as_str(), told.view.as_str()), ("", ""));
        ledger.about.from_start = true;
        assert_eq!(only(&ledger).why, "nothing that grows was seen in all its 4.0 s");
        ledger.total.set(Metric::Live, &Sum::default());
        ledger.moments.clear();
        let told = only(&ledger);
        assert_eq!((told.command.as_str(), told.view.as_str()), ("", "peak"), "{told:?}");
        assert!(told.why.starts_with("nothing is in use at its end"), "{told:?}");
    }

    #[test]
    fn nothing_found_is_said() {
        let mut ledger = Ledger::default();
        ledger.about.outcome = Outcome::Detached.into();
        ledger.about.every = 1;
        let next = Summary::new(&ledger).next;
        assert!(next[0].why.starts_with("nothing that grows was seen in 0"), "{next:?}");
        assert!(next[0].command.ends_with("--flow --duration 10m"), "{next:?}");
    }
}
