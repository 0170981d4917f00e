//! `--apply dirty_decay_ms=N` and `muzzy_decay_ms=N`: how long jemalloc keeps free pages, set in a process that runs
//! by its own mallctl, at the entry of an allocation function (`injector`'s gate).
//!
//! ```text
//! counters -> arenas that have what the first one has -> a call for each, and for those to come -> counters
//! ```
//!
//! An arena that has another value has it on purpose (that of large blocks keeps nothing), and is left as it is: so
//! one command takes all of it back.

use std::time::Duration;

use heapattach_census::counters::{AllocatorKind, Statistics, Value};
use heapattach_injector::{
    attach::{
        PayloadImage,
        gate::{Argument, Call, Called},
    },
    target::Target,
};
use heapattach_report::{AppliedReport, Status, TargetState};
use heapattach_text::{error_chain::with_causes, quantity};

use super::{
    Look,
    foretold::Foretold,
    gated::{Failed, Gate, int, refused},
    trim,
};

/// More arenas are not set: each is a call of its own.
const MOST: usize = 256;
pub(super) const MALLCTL: [&str; 3] = ["mallctl", "je_mallctl", "_rjem_mallctl"];
/// Longer is refused by jemalloc.
const LONGEST: i64 = i64::MAX / 1_000_000;

/// Which pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// As they were left.
    Dirty,
    /// Which the kernel may take, and has not taken yet.
    Muzzy,
}

/// The setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decay {
    /// Of which pages.
    pub pages: Pages,
    /// Milliseconds; -1: for ever.
    pub ms: i64,
}

impl Decay {
    /// As it is typed: a name of jemalloc's, and a value.
    ///
    /// # Errors
    /// What is needed, if the name is one.
    pub fn parse(name: &str, value: &str) -> Option<Result<Self, String>> {
        let pages = [Pages::Dirty, Pages::Muzzy].into_iter().find(|pages| pages.name() == name)?;
        Some(match value.parse() {
            Ok(ms @ -1..=LONGEST) => Ok(Self { pages, ms }),
            _ => Err(format!("not valid: {value}; need milliseconds, or -1 for no end")),
        })
    }

    /// As it is typed.
    pub fn words(self) -> String {
        format!("{}={}", self.pages.name(), self.ms)
    }
}

impl Pages {
    fn name(self) -> &'static str {
        match self {
            Self::Dirty => "dirty_decay_ms",
            Self::Muzzy => "muzzy_decay_ms",
        }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// What these arenas have now.
    before: i64,
    arenas: Vec<u32>,
    /// Arenas with another value.
    others: usize,
    /// Whether arenas to come are to have it, too.
    with_later: bool,
}

impl Plan {
    fn of(decay: Decay, own: &Statistics) -> Result<Self, String> {
        let name = decay.pages.name();
        let value = |index: usize| own.arenas.get(index)?.settings.get(name).copied();
        let Some(before) = value(0) else {
            return Err(format!("{name} of this jemalloc's arenas was not found"));
        };
        let arenas = own.arenas.iter().filter(|arena| arena.settings.get(name) == Some(&before));
        let arenas: Vec<u32> = arenas.map(|arena| arena.index).collect();
        let others = own.arenas.len() - arenas.len();
        if before == decay.ms {
            return Err(format!("{} is what it has already", decay.words()));
        }
        if own.arenas.iter().any(|arena| arena.settings.get(name) == Some(&decay.ms)) {
            return Err(format!(
                "an arena has {} already, others {before}: it could not be told afterwards which to take back; \
                 need another value",
                decay.ms
            ));
        }
        if arenas.len() > MOST {
            return Err(format!(
                "{} arenas would need a call each; at most {MOST} are made",
                arenas.len()
            ));
        }
        let with_later = own.opt.get(name).and_then(Value::number) == Some(before);
        Ok(Self { before, arenas, others, with_later })
    }

    /// Of `mallctl`.
    fn names(&self, name: &str) -> Vec<String> {
        let later = self.with_later.then(|| format!("arenas.{name}"));
        let own = self.arenas.iter().map(|arena| format!("arena.{arena}.{name}"));
        later.into_iter().chain(own).collect()
    }

    fn words(&self, name: &str) -> String {
        let arenas = match self.arenas[..] {
            [one] => format!("arena.{one}.{name}"),
            _ => format!("arena.I.{name} of {} arenas", self.arenas.len()),
        };
        let later = if self.with_later { " and of those to come" } else { "" };
        let others = match self.others {
            0 => String::new(),
            others => format!(" ({others} with another value stay)"),
        };
        format!("mallctl: {arenas}{later}{others}")
    }
}

/// Applies it.
pub fn apply(target: &Target, image: &PayloadImage, decay: Decay, most: Duration) -> AppliedReport {
    let mut report = AppliedReport { remedy: decay.words(), ..AppliedReport::default() };
    match applied(target, image, decay, most, &mut report) {
        Ok(()) => report,
        Err((status, error)) => report.failed(status, error),
    }
}

fn applied(
    target: &Target,
    image: &PayloadImage,
    decay: Decay,
    most: Duration,
    report: &mut AppliedReport,
) -> Result<(), Failed> {
    let pid = target.process.pid();
    let name = decay.pages.name();
    let look = || Look::open(pid).and_then(|look| look.statistics()).unwrap_or_default();
    let counted = look();
    let own = jemalloc(&counted, name).map_err(refused)?;
    let plan = Plan::of(decay, own).map_err(refused)?;
    let function = trim::find(target, &MALLCTL).map_err(refused)?;
    // What is kept for shorter is returned within the call, or soon.
    let is_shorter = decay.ms >= 0 && (plan.before < 0 || decay.ms < plan.before);
    if is_shorter {
        let foretold = Foretold::of(target, AllocatorKind::Jemalloc, &counted, most);
        let held = foretold.map_err(refused)?.held;
        if held > most {
            let [time, most] = [held, most].map(quantity::time);
            return Err(refused(format!(
                "returning what is free then is expected to take {time}, and threads to wait for it; --max-pause is \
                 {most}; need a longer --max-pause"
            )));
        }
    }
    let call = |text| Call {
        function,
        arguments: [
            Argument::Text,
            Argument::Zero,
            Argument::Zero,
            Argument::Value,
            Argument::Number(8),
        ],
        text,
        value: decay.ms.cast_unsigned(),
        answer: 0,
        starts_thread: false,
    };
    let names = plan.names(name);
    let calls: Vec<Call> = names.iter().cloned().map(call).collect();
    report.call = Some(plan.words(name));
    report.setting_before = Some(format!("{name}={}", plan.before));
    let gate = Gate { target, image, most };
    let Called { results, error, .. } = gate.call(&calls, report)?;
    let failed = |why: String| {
        let state = TargetState::Restored;
        (
            Status::Failed,
            format!(
                "{why}; take back what was set by --apply {name}={} (target: {state})",
                plan.before
            ),
        )
    };
    if let Some(error) = error {
        let (made, all) = (results.len(), names.len());
        return Err(failed(format!("{made} of {all} calls were made: {}", with_causes(&error))));
    }
    let mut answers = names.iter().zip(results.iter().map(|result| int(*result)));
    if let Some((name, answer)) = answers.find(|(_, answer)| *answer != 0) {
        return Err(failed(format!("mallctl answered {answer} for {name}")));
    }
    let after = look();
    let is_set = jemalloc(&after, name).is_ok_and(|own| {
        let chosen = own.arenas.iter().filter(|arena| plan.arenas.contains(&arena.index));
        let mut values = chosen.map(|arena| arena.settings.get(name));
        values.all(|value| value == Some(&decay.ms))
    });
    report.setting_after = is_set.then(|| decay.words());
    if is_set { Ok(()) } else { Err(failed("not all arenas have it afterwards".to_owned())) }
}

/// That of most memory.
pub(super) fn jemalloc<'a>(
    counted: &'a [Statistics],
    name: &str,
) -> Result<&'a Statistics, String> {
    let most = counted.iter().max_by_key(|own| trim::memory(own));
    let most = most.ok_or("no allocator whose counters are known was found")?;
    match most.allocator {
        AllocatorKind::Jemalloc => Ok(most),
        other => Err(format!("{name} is a setting of jemalloc; this process uses {other}")),
    }
}

#[cfg(test)]
mod tests {
    use heapattach_census::counters::Arena;

    use super::*;

    fn counted(values: &[i64], opt: i64) -> Statistics {
        let mut own = Statistics::default();
        own.opt.insert("dirty_decay_ms".to_owned(), Value::Number(opt));
        for (index, value) in (0..).zip(values) {
            let mut arena = Arena { index, ..Arena::default() };
            arena.settings.insert("dirty_decay_ms", *value);
            own.arenas.push(arena);
        }
        own
    }

    fn plan(ms: i64, values: &[i64], opt: i64) -> Result<Plan, String> {
        Plan::of(Decay { pages: Pages::Dirty, ms }, &counted(values, opt))
    }

    #[test]
    fn arenas_that_differ_are_left_and_the_default_changes_with_those_that_have_it() {
        let found = plan(500, &[10_000, 10_000, 0], 10_000).unwrap();
        let expected =
            ["arenas.dirty_decay_ms", "arena.0.dirty_decay_ms", "arena.1.dirty_decay_ms"];
        assert_eq!(found.names("dirty_decay_ms"), expected);
        assert_eq!((found.before, found.others), (10_000, 1));
        let found = plan(500, &[-1], 10_000).unwrap();
        assert_eq!(found.names("dirty_decay_ms"), ["arena.0.dirty_decay_ms"]);
    }

    #[test]
    fn what_could_not_be_taken_back_is_refused() {
        assert!(plan(0, &[10_000, 0], 10_000).unwrap_err().contains("which to take back"));
        assert!(plan(7, &[7], 7).unwrap_err().contains("already"));
        assert!(plan(7, &[], 7).is_err() && plan(7, &[1; 300], 1).is_err());
    }

    #[test]
    fn values_are_milliseconds_or_no_end() {
        let parse = |name, value| Decay::parse(name, value);
        assert!(matches!(parse("muzzy_decay_ms", "-1"), Some(Ok(Decay { ms: -1, .. }))));
        assert!(matches!(parse("dirty_decay_ms", "-2"), Some(Err(_))));
        assert!(matches!(parse("dirty_decay_ms", "1s"), Some(Err(_))));
        assert!(parse("narenas", "1").is_none());
    }
}
