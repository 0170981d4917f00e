//! `--apply background_thread=true` and `=false`: whether jemalloc has threads of its own that return free pages, set in
//! a process that runs by its own mallctl, at the entry of an allocation function (`injector`'s gate).
//!
//! ```text
//! may the process start a thread? -> gate: set, which answers what it was -> gate: what it is -> (false again)
//! ```
//!
//! jemalloc starts the first thread within the call, and ends all within the one that takes it back. Where it can start
//! none, it has set the value all the same: that is taken back at once.

use std::time::Duration;

use heapattach_census::counters::{Statistics, Value};
use heapattach_injector::{
    attach::{
        PayloadImage,
        gate::{Argument, Call, Called},
    },
    target::Target,
};
use heapattach_process::addr::RemoteAddr;
use heapattach_report::{AppliedReport, Status, TargetState};
use heapattach_text::error_chain::with_causes;
use nix::errno::Errno;

use super::{
    Look,
    decay::{self, MALLCTL},
    gated::{Failed, Gate, int, refused},
    thread_room, trim,
};

/// As it is typed, and as jemalloc has it.
const NAME: &str = "background_thread";
/// So many of them are started at most: what was set, if it is not more than jemalloc takes.
const MOST: u64 = 4096;
const USUAL: u64 = 4;
/// A bool's.
const BYTES: u64 = 1;

/// Whether it has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Background(pub bool);

impl Background {
    /// As it is typed.
    ///
    /// # Errors
    /// What is needed, if the name is this one.
    pub fn parse(name: &str, value: Option<&str>) -> Option<Result<Self, String>> {
        (name == NAME).then(|| match value {
            Some("true") => Ok(Self(true)),
            Some("false") => Ok(Self(false)),
            _ => Err(format!("need {NAME}=true or {NAME}=false")),
        })
    }

    /// As it is typed.
    pub fn words(self) -> String {
        format!("{NAME}={}", self.0)
    }

    /// The opposite, which takes it back.
    fn opposite(self) -> Self {
        Self(!self.0)
    }
}

/// Applies it.
pub fn apply(
    target: &Target,
    image: &PayloadImage,
    wanted: Background,
    most: Duration,
) -> AppliedReport {
    let report = AppliedReport { remedy: wanted.words(), ..AppliedReport::default() };
    let mut session = Session { gate: Gate { target, image, most }, report };
    match session.apply(wanted) {
        Ok(()) => session.report,
        Err((status, error)) => session.report.failed(status, error),
    }
}

/// What is done to one process.
struct Session<'t> {
    gate: Gate<'t>,
    report: AppliedReport,
}

impl Session<'_> {
    fn apply(&mut self, wanted: Background) -> Result<(), Failed> {
        let pid = self.gate.target.process.pid();
        let counted = Look::open(pid).and_then(|look| look.statistics()).unwrap_or_default();
        let own = decay::jemalloc(&counted, NAME).map_err(refused)?;
        if wanted.0 {
            may_fail(own).map_err(refused)?;
            let most = own.opt.get("max_background_threads").and_then(Value::number);
            let most = most.and_then(|most| u64::try_from(most).ok());
            let most = most.filter(|most| (1..=MOST).contains(most)).unwrap_or(USUAL);
            thread_room::check(&self.gate.target.process, most).map_err(refused)?;
        }
        let function = trim::find(self.gate.target, &MALLCTL).map_err(refused)?;
        self.report.call = Some(format!("mallctl(\"{NAME}\")"));
        let calls = [set(function, wanted), get(function)];
        let Called { results, answers, error, .. } = self.gate.call(&calls, &mut self.report)?;
        let was = Background(answers.first().is_some_and(|was| was & 0xff != 0));
        match results.first().map(|result| mallctl_error(*result)) {
            Some(None) => {}
            Some(Some(Errno::EFAULT)) if wanted.0 => return self.take_back(function),
            Some(Some(errno)) => return Err(answered(errno, &self.gate.target.process)),
            // Without one the calls have failed.
            None => return Err(failed("mallctl was not called".to_owned())),
        }
        if was == wanted {
            return Err(failed(format!("{} is what it has already", wanted.words())));
        }
        self.report.setting_before = Some(was.words());
        let is = match (results.get(1).map(|result| mallctl_error(*result)), answers.get(1)) {
            (Some(None), Some(answer)) => Background(answer & 0xff != 0),
            _ => {
                let why =
                    error.map_or_else(String::new, |error| format!(": {}", with_causes(&error)));
                return Err(failed(format!(
                    "it was set, and could not be read afterwards{why}; taken back by --apply {}",
                    was.words()
                )));
            }
        };
        self.report.setting_after = Some(is.words());
        if is == wanted {
            return Ok(());
        }
        Err(failed(format!("it is {} again: another thread of the process has set it", is.words())))
    }

    /// It could start no thread, and has the value all the same.
    fn take_back(&mut self, function: RemoteAddr) -> Result<(), Failed> {
        let off = Background(true).opposite();
        let why = "jemalloc could not start a thread: it answered EFAULT; need room below the limits on processes \
                   (ulimit -u, pids.max of its control group)";
        let done = self.gate.call(&[set(function, off)], &mut self.report);
        let is_off = done.is_ok_and(|called| {
            called.results.first().is_some_and(|result| mallctl_error(*result).is_none())
        });
        Err(match is_off {
            true => failed(format!("{why}; it is {} again", off.words())),
            false => failed(format!(
                "{why}; what it has is true all the same, without a thread: take that back by --apply {}",
                off.words()
            )),
        })
    }
}

fn set(function: RemoteAddr, wanted: Background) -> Call {
    Call {
        function,
        arguments: [
            Argument::Text,
            Argument::Answer,
            Argument::AnswerBytes,
            Argument::Value,
            Argument::Number(BYTES),
        ],
        text: NAME.to_owned(),
        value: wanted.0.into(),
        answer: BYTES,
        starts_thread: wanted.0,
    }
}

fn get(function: RemoteAddr) -> Call {
    let [name, answer, bytes] = [Argument::Text, Argument::Answer, Argument::AnswerBytes];
    let arguments = [name, answer, bytes, Argument::Zero, Argument::Zero];
    Call { arguments, value: 0, starts_thread: false, ..set(function, Background(false)) }
}

/// A thread that cannot be started ends a process whose jemalloc is to abort at warnings.
fn may_fail(own: &Statistics) -> Result<(), String> {
    match own.opt.get("abort") {
        Some(Value::Flag(false)) => Ok(()),
        Some(_) => Err(format!(
            "opt.abort of this jemalloc is true: it would abort the process if no thread can be started; need \
             {}={NAME}:true at the next start",
            if own.variable.is_empty() { "MALLOC_CONF" } else { &own.variable }
        )),
        None => Err("opt.abort of this jemalloc was not found: it is not certain that it goes on if no thread can \
                     be started"
            .to_owned()),
    }
}

fn mallctl_error(result: u64) -> Option<Errno> {
    let number = int(result).cast_signed();
    (number != 0).then(|| Errno::from_raw(number))
}

fn answered(errno: Errno, process: &heapattach_process::proc::Process) -> Failed {
    match errno {
        Errno::ENOENT => failed(format!(
            "the jemalloc of process {} was built without background threads: mallctl answered ENOENT",
            process.pid()
        )),
        other => failed(format!("mallctl answered {other:?} for {NAME}")),
    }
}

fn failed(why: String) -> Failed {
    (Status::Failed, format!("{why} (target: {})", TargetState::Restored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_true_and_false() {
        let parse = |value| Background::parse(NAME, value);
        assert_eq!(parse(Some("true")), Some(Ok(Background(true))));
        assert_eq!(parse(Some("false")), Some(Ok(Background(false))));
        for value in [None, Some("on"), Some("")] {
            let why = parse(value).unwrap().unwrap_err();
            assert!(why.contains("background_thread=true or"), "{why}");
        }
        assert_eq!(Background::parse("dirty_decay_ms", Some("1")), None);
    }

    #[test]
    fn one_that_aborts_where_it_fails_is_refused() {
        let mut own = Statistics::default();
        assert!(may_fail(&own).unwrap_err().contains("not found"));
        own.opt.insert("abort".to_owned(), Value::Flag(true));
        assert!(may_fail(&own).unwrap_err().contains("MALLOC_CONF=background_thread:true"));
        own.opt.insert("abort".to_owned(), Value::Flag(false));
        assert_eq!(may_fail(&own), Ok(()));
    }

    #[test]
    fn an_answer_is_an_int() {
        assert_eq!(mallctl_error(0xffff_ffff_0000_0000), None);
        assert_eq!(mallctl_error(2), Some(Errno::ENOENT));
    }
}
