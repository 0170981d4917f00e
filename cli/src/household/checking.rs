//! `check --follow-forks`: every program of a family is checked at its end.

use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    family::Scope, keeper::Attendant, own_checker, start::StartError, target::Target, ward::Ward,
};

use super::Trade;
use crate::{
    args::CheckArgs,
    exit::Exit,
    hidden::glob,
    inspection::{End, Inspection, options},
    inspector,
    line::Line,
    member::{Business, Cause, Standing},
    payload,
    report::Report,
    spawn::Waiting,
    suppression::Suppressions,
    tracer,
};

/// How long the end of a process may take to be told of.
const DYING: Duration = Duration::from_millis(100);

/// Lets the forked child exec, under our eyes, and checks what becomes of it.
///
/// # Errors
/// When it could not be traced, or execed nothing.
pub fn run(
    line: &mut Line,
    program: &Waiting,
    args: &CheckArgs,
    rules: &Suppressions,
    report: &mut Report,
) -> Result<(), StartError> {
    let check = Check { args: Arc::new(args.clone()), rules: Arc::new(rules.clone()) };
    let exit = super::run(line, program, Checking(check), report)?;
    // The first program is ended if it cannot be checked.
    let was_let_run = report.outcome != "refused" && report.outcome != "failed";
    if let Some(exit) = exit.filter(|_| was_let_run) {
        report.status = exit.shell_code();
    } else {
        report.status = Exit::RunFailed.code();
    }
    Ok(())
}

/// See above.
#[derive(Debug)]
struct Checking(Check);

impl Trade for Checking {
    type Business = Check;

    fn scope(&self) -> Scope {
        Scope::Forks { most: self.0.args.max_processes, to_end: true }
    }

    fn duration(&self) -> Option<Duration> {
        self.0.args.duration
    }

    fn business(&mut self, _: usize, left: Option<Duration>) -> Check {
        let mut check = self.0.clone();
        if left.is_some() {
            Arc::make_mut(&mut check.args).duration = left;
        }
        check
    }

    fn arrange(&self, _: &mut BTreeMap<usize, Report>, _: &[usize]) {}
}

/// The check of one process.
#[derive(Clone, Debug)]
struct Check {
    args: Arc<CheckArgs>,
    rules: Arc<Suppressions>,
}

impl Business for Check {
    fn see_to(self, standing: Standing<'_>, line: &mut Line, report: &mut Report) {
        let Standing { lease, cause, target, held } = standing;
        if self.is_skipped(target) {
            return "skipped".clone_into(&mut report.outcome);
        }
        if let Some(name) = own_checker::of(target) {
            // It refuses to work while it is traced.
            drop(held);
            lease.leave();
            return inspector::step_aside(name, report);
        }
        let mut ward = Box::new(Ward::begin(target, lease));
        let is_from_start = matches!(cause, Cause::Execed { .. });
        let mut inspection = Inspection::new(&self.args, &self.rules, target, is_from_start);
        let image = payload::image_for(self.args.asks_for_growth());
        match tracer::begin(target, image, options(&self.args), held) {
            Ok(mut session) => {
                lease.let_go();
                tracer::announce(line, &session, report, None);
                let end = inspection.run(line, &mut session, Some(ward), report);
                inspector::note_end(end, report);
                if !matches!(end, Some(End::Ends | End::Execed | End::Gone)) {
                    lease.leave();
                }
            }
            // Nothing of its own has run.
            Err(_) if is_over(&mut ward, target) => {
                "exited".clone_into(&mut report.outcome);
                report.why = Some("it ended before its first instruction".to_owned());
                ward.finish();
            }
            Err(failure) => {
                tracer::refuse(report, &failure);
                ward.finish();
                cause.abandon(lease.pid());
            }
        }
    }
}

impl Check {
    /// Whether its program is one that is to run unchecked.
    fn is_skipped(&self, target: &Target) -> bool {
        let path = fs::read_link(format!("/proc/{}/exe", target.process.pid()));
        let path = path.unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(" (deleted)");
        self.args.skip.iter().any(|pattern| glob::matches(pattern, name))
    }
}

/// Whether a process is at its end, or gone: whoever is killed may be seen to fail a little before.
fn is_over(ward: &mut Ward<'_>, target: &Target) -> bool {
    let deadline = Instant::now() + DYING;
    loop {
        let is_empty = target.process.read("maps").is_ok_and(|maps| maps.is_empty());
        if is_empty || ward.attend().is_some() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
