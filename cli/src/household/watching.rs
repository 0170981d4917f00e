//! `run`, and `-p` with `--follow-forks`: every process has a session, and where that is written to.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use heapattach_injector::{
    attach, failure::AttachError, failure::Failure, family::Scope, preflight::Refusal,
    session::Session, start::StartError, target::Target,
};

use super::{Household, Trade};
use crate::{
    args::{RunArgs, SessionArgs},
    ending::End,
    exit::Exit,
    guard,
    line::Line,
    member::{Business, Cause, Standing},
    observation::Record,
    payload,
    recording::{self, Recording, Store},
    report::{ExitReport, Report},
    spawn::Waiting,
    tracer::{announce, options, refuse, store_for},
    view::Summary,
};

/// `heapattach run`: lets the forked child exec, under our eyes, and follows it.
///
/// # Errors
/// When it could not be traced, or execed nothing.
pub fn run(
    line: &mut Line,
    program: &Waiting,
    args: &RunArgs,
    report: &mut Report,
    store: Option<Store>,
) -> Result<(), StartError> {
    let watching = Watching::new(&args.session, store);
    let exit = super::run(line, program, watching, report)?;
    if report.error.is_none() {
        report.status = exit.map_or(Exit::RunFailed.code(), ExitReport::shell_code);
    } else if report.outcome == "refused" {
        report.status = Exit::RunFailed.code();
    }
    Ok(())
}

/// `heapattach -p PID --follow-forks`.
pub fn attach(line: &mut Line, target: Target, args: &SessionArgs, store: Option<Store>) -> Report {
    let pid = target.process.pid();
    let mut report = Report::new(pid, target.process.command());
    let watching = Watching::new(args, store);
    let begun = Household::new(line, pid, watching).and_then(|mut household| {
        let lease = household.family.join(&target.process)?;
        Ok((household, lease))
    });
    drop(target);
    match begun {
        Ok((mut household, lease)) => {
            household.house(lease, Cause::Found);
            household.follow(false);
            household.conclude()
        }
        Err(errno) => {
            let refusal = Refusal {
                value: format!("process {pid} cannot be traced ({})", errno.desc()),
                need: "the right to trace it".to_owned(),
                cure: "try without --follow-forks, which does not stay its tracer".to_owned(),
                unsupported: false,
            };
            refuse(&mut report, &Failure::clean(refusal, false));
            report
        }
    }
}

/// See above.
#[derive(Debug)]
struct Watching<'a> {
    args: &'a SessionArgs,
    store: Option<Store>,
    named: Option<PathBuf>,
}

impl<'a> Watching<'a> {
    fn new(args: &'a SessionArgs, store: Option<Store>) -> Self {
        Self { args, store, named: args.record.output.clone() }
    }

    fn destination(&mut self, number: usize) -> Destination {
        let has_path = self.store.as_ref().is_some_and(|store| store.path.is_some());
        match &self.named {
            // Where a process may be named only once it is there, the file has no name yet.
            _ if number == 0 && (has_path || !self.args.records_by_default()) => {
                Destination::Given(self.store.take())
            }
            Some(path) => Destination::Beside(path.clone()),
            None if self.args.records_by_default() => Destination::Named,
            None => Destination::Nowhere,
        }
    }
}

impl Trade for Watching<'_> {
    type Business = Watch;

    fn scope(&self) -> Scope {
        match self.args.follow_forks {
            true => Scope::Forks { most: self.args.max_processes, to_end: false },
            false => Scope::Execs,
        }
    }

    fn duration(&self) -> Option<Duration> {
        self.args.duration
    }

    fn business(&mut self, number: usize, left: Option<Duration>) -> Watch {
        let mut args = self.args.clone();
        args.duration = left.or(args.duration);
        if number > 0 {
            args.stacks = None;
        }
        Watch { args, store: self.destination(number) }
    }

    /// The file that was named is for what the program became last: `run -- env x` is about `x`.
    fn arrange(&self, reports: &mut BTreeMap<usize, Report>, own: &[usize]) {
        if let (Some(path), [first, .., last]) = (&self.named, own) {
            swap_files(path, reports, *first, *last);
        }
    }
}

fn swap_files(path: &Path, reports: &mut BTreeMap<usize, Report>, first: usize, last: usize) {
    let path_of =
        |report: Option<&Report>| report.and_then(|r| Some(r.recording.as_ref()?.path.clone()));
    let (old, new) = (path_of(reports.get(&first)), path_of(reports.get(&last)));
    let (Some(old), Some(new), Some(report)) = (old, new, reports.get(&first)) else { return };
    let Ok((spare, _)) = recording::create_beside(path, report.pid) else { return };
    if fs::rename(&old, &spare).is_err() || fs::rename(&new, path).is_err() {
        return;
    }
    for (number, path) in [(first, spare), (last, path.to_owned())] {
        if let Some(recording) = reports.get_mut(&number).and_then(|r| r.recording.as_mut()) {
            recording.path = path;
        }
    }
}

/// Where a session of a family is written to.
#[derive(Debug)]
enum Destination {
    /// There.
    Given(Option<Store>),
    /// To a file named after the process.
    Named,
    /// To a file beside this one, named after it and the process.
    Beside(PathBuf),
    /// To nowhere that stays.
    Nowhere,
}

impl Destination {
    fn open(&self, target: &Target) -> Option<Store> {
        let pid = target.process.pid();
        let store = match self {
            Self::Given(store) => store.as_ref().and_then(|store| store.share().ok()),
            Self::Named => store_for(target),
            Self::Beside(path) => recording::create_beside(path, pid)
                .ok()
                .map(|(path, file)| Store { path: Some(path), file }),
            Self::Nowhere => None,
        };
        store.or_else(|| Store::anonymous().ok())
    }
}

/// The session of one process.
#[derive(Debug)]
struct Watch {
    args: SessionArgs,
    store: Destination,
}

impl Business for Watch {
    fn see_to(self, standing: Standing<'_>, line: &mut Line, report: &mut Report) {
        let Standing { lease, cause, target, .. } = standing;
        let store = self.store.open(target);
        let shared = store.as_ref().and_then(|store| store.share().ok());
        let path = store.as_ref().and_then(|store| store.path.clone());
        let record = Record::new(target, store);
        match self.attach(standing) {
            Ok(mut session) => {
                lease.let_go();
                announce(line, &session, report, path);
                let ending = record.observe(line, &mut session, &self.args, report);
                if !matches!(ending, End::Ended | End::Execed) {
                    lease.leave();
                }
                sum_up(report, shared.as_ref());
            }
            Err(failure) => {
                refuse(report, &failure);
                // Nothing was recorded.
                let _ = path.map(std::fs::remove_file);
                cause.abandon(lease.pid());
            }
        }
    }
}

impl Watch {
    fn attach<'t>(&self, standing: Standing<'t>) -> Result<Session<'t>, Failure> {
        let Standing { target, held, cause, .. } = standing;
        if cause == Cause::Found {
            guard::check_headroom(&target.process)
                .map_err(|refusal| Failure::clean(AttachError::from(refusal), false))?;
        }
        attach::attach(target, payload::image_for(self.args.flow), options(&self.args), held)
    }
}

/// What the command does for the one process that it knows, done here for others.
pub fn sum_up(report: &mut Report, shared: Option<&Store>) {
    let recording = match &report.recording {
        Some(recording) => Recording::open(&recording.path).ok(),
        None => shared.and_then(Store::read),
    };
    report.summary = recording.map(|recording| Summary::new(&recording.ledger(None)));
}
