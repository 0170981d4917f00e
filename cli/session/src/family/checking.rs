//! `check --follow-forks`: every program of a family is checked at its end.

use std::{
    collections::BTreeMap,
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    attach::{Failure, PayloadImage, heir},
    family::{Attendant, Lease, MemberExitWatch, Scope},
    moment::sanitizer,
    target::{Target, start::StartError},
    watch::Session,
};

use super::FamilyTask;
use crate::{
    check::{self, End, Inspection, options::CheckOptions},
    client::channel::Line,
    family::member::{Business, Cause, Standing},
    fork::Waiting,
    watch::{
        inheritance::{Estate, Estates, Will},
        session_start,
    },
};
use heapattach_report::{Outcome, Report, Status, suppression::Suppressions};
use heapattach_text::glob;

/// How long the end of a process may take to be told of.
const DYING: Duration = Duration::from_millis(100);

/// Lets the forked child exec, under our eyes, and checks what becomes of it.
///
/// # Errors
/// When it could not be traced, or execed nothing.
pub fn run(
    line: &mut Line,
    program: &Waiting,
    (options, rules, image): (&CheckOptions, &Suppressions, &'static PayloadImage),
    report: &mut Report,
) -> Result<(), StartError> {
    let (options, rules) = (Arc::new(options.clone()), Arc::new(rules.clone()));
    let check = Check { options, rules, image, estates: Estates::default(), estate: None };
    let checking = Checking { check };
    let exit = super::run(line, program, checking, report)?;
    // The first program is ended if it cannot be checked.
    let was_let_run = report.outcome.was_let_run();
    if let Some(exit) = exit.filter(|_| was_let_run) {
        report.status = Status::from(exit.shell_code());
    } else {
        report.status = Status::RunFailed;
    }
    Ok(())
}

/// The work of one process of a family that is checked.
#[derive(Debug)]
struct Checking {
    check: Check,
}

impl FamilyTask for Checking {
    type Business = Check;

    fn scope(&self) -> Scope {
        Scope::Forks { most: self.check.options.max_processes, to_end: true }
    }

    fn duration(&self) -> Option<Duration> {
        self.check.options.duration
    }

    fn estates(&self) -> &Estates {
        &self.check.estates
    }

    fn business(
        &mut self,
        _: usize,
        _: bool,
        left: Option<Duration>,
        estate: Option<Arc<Estate>>,
    ) -> Check {
        let mut check = Check { estate, ..self.check.clone() };
        if left.is_some() {
            Arc::make_mut(&mut check.options).duration = left;
        }
        check
    }

    fn arrange(&self, _: &mut BTreeMap<usize, Report>, _: &[usize]) {}
}

/// The check of one process.
#[derive(Clone, Debug)]
struct Check {
    options: Arc<CheckOptions>,
    rules: Arc<Suppressions>,
    image: &'static PayloadImage,
    /// Where what a session has is left to children.
    estates: Estates,
    /// What its parent's has left to it.
    estate: Option<Arc<Estate>>,
}

impl Business for Check {
    fn see_to(self, standing: Standing<'_>, line: &mut Line, report: &mut Report) {
        let Standing { lease, cause, target, held } = standing;
        // A child whose parent is checked is its program still.
        let is_known = self.estate.is_some();
        if !is_known && self.is_skipped(target) {
            return report.outcome = Outcome::Skipped;
        }
        if let Some(name) = (!is_known).then(|| sanitizer::of(target)).flatten() {
            // It refuses to work while it is traced.
            drop(held);
            lease.leave();
            return check::step_aside(name, report);
        }
        let mut exit_watch = Box::new(MemberExitWatch::begin(target, lease));
        match self.inherit(target) {
            Ok(None) => {}
            Ok(Some((session, inspection))) => {
                return self.inspect(lease, (session, inspection), exit_watch, line, report);
            }
            Err(failure) => {
                exit_watch.finish();
                return session_start::refuse(report, &failure);
            }
        }
        let is_from_start = matches!(cause, Cause::Execed { .. });
        let files = self.estates.files.clone();
        let inspection =
            Inspection::new(&self.options, &self.rules, (target, files), is_from_start);
        match session_start::begin(target, self.image, self.options.for_engine(), held) {
            Ok(session) => self.inspect(lease, (session, inspection), exit_watch, line, report),
            // Nothing of its own has run.
            Err(_) if is_over(&mut exit_watch, target) => {
                report.outcome = Outcome::Exited;
                report.why = Some("it ended before its first instruction".to_owned());
                exit_watch.finish();
            }
            Err(failure) => {
                session_start::refuse(report, &failure);
                exit_watch.finish();
                cause.abandon(lease.pid());
            }
        }
    }
}

impl Check {
    /// The session of a forked child, begun with what its parent's has, if that can be.
    fn inherit<'t>(
        &self,
        target: &'t Target,
    ) -> Result<Option<(Session<'t>, Inspection<'_>)>, Failure> {
        let Some(estate) = &self.estate else { return Ok(None) };
        let Some(rules) = &estate.rules else { return Ok(None) };
        let session = heir::inherit(target, self.image, &estate.heritage)?;
        let symbols = || estate.symbols_for(&target.process);
        Ok(session.map(|session| (session, Inspection::inherited(&self.options, rules, symbols()))))
    }

    /// From the attach to the report.
    fn inspect<'t>(
        &self,
        lease: &Lease,
        (mut session, inspection): (Session<'t>, Inspection<'_>),
        exit_watch: Box<MemberExitWatch<'t>>,
        line: &mut Line,
        report: &mut Report,
    ) {
        let will = Will::new(self.estates.clone(), lease.pid());
        let mut inspection = inspection.leaving(will, &session);
        // Nothing that follows needs it to stand still.
        lease.let_go();
        session_start::announce(line, &session, report, None);
        let end = inspection.run(line, &mut session, Some(exit_watch), report);
        check::note_end(end, report);
        if !matches!(end, Some(End::Ends | End::Execed | End::Gone)) {
            lease.leave();
        }
    }

    /// Whether its program is one that is to run unchecked.
    fn is_skipped(&self, target: &Target) -> bool {
        let path = fs::read_link(format!("/proc/{}/exe", target.process.pid()));
        let path = path.unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.trim_end_matches(" (deleted)");
        self.options.skip.iter().any(|pattern| glob::matches(pattern, name))
    }
}

/// Whether a process is ending, or gone: calls on a killed process may fail a little before it ends.
fn is_over(exit_watch: &mut MemberExitWatch<'_>, target: &Target) -> bool {
    let deadline = Instant::now() + DYING;
    loop {
        let is_empty = target.process.read("maps").is_ok_and(|maps| maps.is_empty());
        if is_empty || exit_watch.attend().is_some() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}
