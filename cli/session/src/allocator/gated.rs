//! Calls of the allocator's own functions at the gate, for every remedy that makes some: what they took is added to the
//! report, and what is left in the process is told.

use std::time::{Duration, Instant};

use heapattach_injector::{
    attach::{
        AttachError, Failure, HookMode, Options, PayloadImage, Wish,
        gate::{self, Call, Called},
    },
    target::Target,
};
use heapattach_report::{AppliedReport, Status, TargetState, micros};
use heapattach_text::error_chain::with_causes;

use super::facts;

/// How long a thread may take to come by.
const PATIENCE: Duration = Duration::from_secs(5);

/// How it went, and why.
pub(super) type Failed = (Status, String);

/// Of one process.
#[derive(Clone, Copy)]
pub(super) struct Gate<'t> {
    pub target: &'t Target,
    pub image: &'t PayloadImage,
    /// How long it may be stopped.
    pub most: Duration,
}

impl Gate<'_> {
    /// Has them made; what was measured comes into the report, also where that is an error. If only some were made,
    /// the answer says so.
    pub fn call(self, calls: &[Call], report: &mut AppliedReport) -> Result<Called, Failed> {
        let Self { target, image, most } = self;
        if report.before == 0 {
            report.before = facts::resident(&target.process);
        }
        let began = Instant::now();
        let done = gate::calls(target, image, options(most), calls, PATIENCE);
        let called = done.map_err(failed)?;
        report.stopped_us += called.stops.iter().map(|stop| micros(stop.stopped)).sum::<f64>();
        report.attempts += 1;
        let took = micros(called.took.min(began.elapsed()));
        report.call_us = Some(report.call_us.unwrap_or_default() + took);
        report.after = facts::resident(&target.process);
        match &called.left {
            None => Ok(called),
            Some(left) => {
                Err((Status::Left, format!("{} (target: {})", left.error, left.what.join("; "))))
            }
        }
    }
}

/// Not done, and nothing was called.
pub(super) fn refused(why: impl std::fmt::Display) -> Failed {
    (Status::Refused, format!("{why} (target: {})", TargetState::Untouched))
}

/// No call was made.
#[allow(clippy::needless_pass_by_value)]
fn failed(failure: Failure) -> Failed {
    let (status, state) = match (&failure.left, failure.touched) {
        (Some(left), _) => (Status::Left, left.what.join("; ")),
        (None, true) => (Status::Failed, TargetState::Restored.to_string()),
        (None, false) => (Status::Refused, TargetState::Untouched.to_string()),
    };
    let error: &AttachError = &failure.error;
    (status, format!("{} (target: {state})", with_causes(error)))
}

/// Nothing is recorded: functions are only led to gates.
fn options(most: Duration) -> Options {
    let python = Wish::Off;
    let (pages, tables) = (false, false);
    Options { pages, tables, python, max_stop: most, ..Options::sampling(HookMode::Auto) }
}

/// An int: the upper half of the register says nothing.
pub(super) fn int(result: u64) -> u32 {
    u32::try_from(result & 0xffff_ffff).unwrap_or_default()
}
