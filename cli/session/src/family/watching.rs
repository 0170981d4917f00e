//! `run`, and `-p` with `--follow-forks`: every process has a session, and where that is written to.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    attach::{self, AttachError, Failure, PayloadImage, Refusal, foreseen, heir},
    family::{Lease, Scope},
    target::{StopError, Target, start::StartError},
    watch::Session,
};

use nix::errno::Errno;

use super::{FamilySession, FamilyTask};
use crate::{
    client::channel::Line,
    family::member::{Business, Cause, Standing},
    fork::Waiting,
    golang,
    runtimes::{Runtimes, go_program},
    watch::{
        end::End,
        files::Files,
        inheritance::{Estate, Estates, Will},
        limits,
        observation::Record,
        options::WatchOptions,
        session_start::{announce, refuse, store_for},
        stack_dump::StackList,
    },
};
use heapattach_recording::{self, Store};
use heapattach_report::{Outcome, Report, Status};
use heapattach_symbols::Symbols;

/// How long the end of a process may take to be seen.
const DYING: Duration = Duration::from_millis(100);

/// `heapattach run`: lets the forked child exec, under our eyes, and follows it.
///
/// # Errors
/// When it could not be traced, or execed nothing.
pub fn run(
    line: &mut Line,
    program: &Waiting,
    options: &WatchOptions,
    report: &mut Report,
    files: Files,
    image: &'static PayloadImage,
) -> Result<(), StartError> {
    let watching = Watching::new(options, files, image);
    let exit = super::run(line, program, watching, report)?;
    report.status = match exit {
        Some(exit) if report.outcome != Outcome::Refused => report.status_of_run(exit),
        _ => Status::RunFailed,
    };
    Ok(())
}

/// `heapattach -p PID --follow-forks`.
pub fn attach(
    line: &mut Line,
    target: Target,
    options: &WatchOptions,
    files: Files,
    image: &'static PayloadImage,
) -> Report {
    let pid = target.process.pid();
    let mut report = Report::new(pid, target.process.command());
    let watching = Watching::new(options, files, image);
    // To trace a thread is to stop it later, if only to let it go again.
    let is_allowed = foreseen::check(&target, options.max_stop).map_err(AttachError::from);
    let is_wanted = || target.permit.is_granted().then_some(()).ok_or(StopError::Unwanted.into());
    if let Err(error) = is_allowed.and_then(|()| is_wanted()) {
        refuse(&mut report, &Failure::clean(error, false));
        return report;
    }
    let begun = FamilySession::new(line, pid, watching).and_then(|mut family_session| {
        let lease = family_session.family.join(&target.process)?;
        Ok((family_session, lease))
    });
    drop(target);
    match begun {
        Ok((mut family_session, lease)) => {
            family_session.house(lease, Cause::Found);
            family_session.follow(false);
            family_session.conclude()
        }
        Err(Errno::EINTR) => {
            let refusal = Refusal {
                value: format!("process {pid} is becoming another program"),
                need: "a program that has begun".to_owned(),
                cure: "try again".to_owned(),
                unsupported: false,
            };
            refuse(&mut report, &Failure::clean(refusal, false));
            report
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

/// The work of one process of a family that is watched.
#[derive(Debug)]
struct Watching<'a> {
    options: &'a WatchOptions,
    image: &'static PayloadImage,
    store: Option<Store>,
    stacks: Option<StackList>,
    named: Option<PathBuf>,
    estates: Estates,
}

impl<'a> Watching<'a> {
    fn new(options: &'a WatchOptions, files: Files, image: &'static PayloadImage) -> Self {
        let Files { store, stacks, .. } = files;
        let (named, estates) = (options.record.output.clone(), Estates::default());
        Self { options, image, store, stacks, named, estates }
    }

    fn destination(&mut self, number: usize) -> Destination {
        let has_path = self.store.as_ref().is_some_and(|store| store.path.is_some());
        match &self.named {
            // Where a process may be named only once it is there, the file has no name yet.
            _ if number == 0 && (has_path || !self.options.record.is_by_default) => {
                Destination::Given(self.store.take())
            }
            Some(path) => Destination::Beside(path.clone()),
            None if self.options.record.is_by_default => {
                Destination::Named(self.options.record.prefix.clone())
            }
            None => Destination::Nowhere,
        }
    }
}

impl FamilyTask for Watching<'_> {
    type Business = Watch;

    fn scope(&self) -> Scope {
        match self.options.follow_forks {
            true => Scope::Forks { most: self.options.max_processes, to_end: false },
            false => Scope::Execs,
        }
    }

    fn duration(&self) -> Option<Duration> {
        self.options.duration
    }

    fn estates(&self) -> &Estates {
        &self.estates
    }

    fn business(
        &mut self,
        number: usize,
        is_own: bool,
        left: Option<Duration>,
        estate: Option<Arc<Estate>>,
    ) -> Watch {
        let mut options = self.options.clone();
        options.duration = left.or(options.duration);
        let stacks = self.stacks.as_ref().filter(|_| is_own);
        let stacks = stacks.map(|stacks| stacks.of_program(number));
        let estates = self.options.follow_forks.then(|| self.estates.clone());
        Watch {
            options,
            image: self.image,
            store: self.destination(number),
            stacks,
            estates,
            estate,
        }
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
    let Ok((spare, _)) = heapattach_recording::create_beside(path, report.pid) else { return };
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
    /// To a file named after the process; how its path begins, if that was chosen.
    Named(Option<PathBuf>),
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
            Self::Named(prefix) => store_for(target, prefix.as_deref()),
            Self::Beside(path) => heapattach_recording::create_beside(path, pid)
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
    options: WatchOptions,
    image: &'static PayloadImage,
    store: Destination,
    stacks: Option<StackList>,
    /// Where what this session has is left to children, if those are followed.
    estates: Option<Estates>,
    /// What its parent's has left to it.
    estate: Option<Arc<Estate>>,
}

/// The session of a child, with its modules and the runtimes in them.
type Inherited<'t> = (Session<'t>, Symbols, Runtimes);

impl Business for Watch {
    fn see_to(mut self, standing: Standing<'_>, line: &mut Line, report: &mut Report) {
        let Standing { lease, cause, target, held } = standing;
        let inherited = match self.inherit(target) {
            Ok(inherited) => inherited,
            Err(failure) => return refuse(report, &failure),
        };
        if let Some((session, symbols, runtimes)) = inherited {
            let mut will = self.will(lease);
            let renew = |will: &mut Will| will.renew(&session, &symbols, Some(&runtimes));
            will.iter_mut().for_each(renew);
            // Nothing that follows needs it to stand still.
            lease.let_go();
            let store = self.store.open(target);
            let path = store.as_ref().and_then(|store| store.path.clone());
            let stacks = self.stacks.take();
            let record = Record::with(target, store, stacks, symbols, runtimes).leaving(will);
            return self.watch(lease, session, record, path, line, report);
        }
        if matches!(cause, Cause::Execed { .. }) && go_program::instead(lease.pid()).is_some() {
            drop(held);
            lease.let_go();
            let store = self.store.open(target);
            let files = Files { store, stacks: self.stacks.take(), blocks: None };
            golang::follow(line, target, &self.options, report, files);
            return;
        }
        let standing = Standing { lease, cause, target, held };
        let store = self.store.open(target);
        let path = store.as_ref().and_then(|store| store.path.clone());
        let stacks = self.stacks.take();
        let files = self.estates.as_ref().map(|estates| estates.files.clone());
        let record = Record::through(files, target, store, stacks);
        let mut record = record.leaving(self.will(lease));
        match self.attach(standing) {
            Ok(session) => {
                record.renew_will(&session);
                lease.let_go();
                self.watch(lease, session, record, path, line, report);
            }
            // Nothing was recorded.
            Err(_) if is_over(target) => {
                let _ = path.map(std::fs::remove_file);
                report.outcome = Outcome::Exited;
            }
            Err(failure) => {
                refuse(report, &failure);
                let _ = path.map(std::fs::remove_file);
                cause.abandon(lease.pid());
            }
        }
    }
}

/// Whether a process is at its end: one that is killed may be seen to fail a little before.
fn is_over(target: &Target) -> bool {
    let deadline = Instant::now() + DYING;
    loop {
        if target.process.read("maps").map_or(true, |maps| maps.is_empty()) {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

impl Watch {
    /// The session of a forked child, begun with what its parent's has, if that can be.
    fn inherit<'t>(&self, target: &'t Target) -> Result<Option<Inherited<'t>>, Failure> {
        let Some(estate) = &self.estate else { return Ok(None) };
        let session = heir::inherit(target, self.image, &estate.heritage)?;
        Ok(session.map(|session| {
            let runtimes = estate.runtimes.clone().unwrap_or_else(|| Runtimes::of(target));
            (session, estate.symbols_for(&target.process), runtimes)
        }))
    }

    /// What is left to children of this process, if those are followed.
    fn will(&self, lease: &Lease) -> Option<Will> {
        self.estates.as_ref().map(|estates| Will::new(estates.clone(), lease.pid()))
    }

    fn attach<'t>(&self, standing: Standing<'t>) -> Result<Session<'t>, Failure> {
        let Standing { target, held, cause, .. } = standing;
        if cause == Cause::Found {
            limits::check_headroom(&target.process)
                .map_err(|refusal| Failure::clean(AttachError::from(refusal), false))?;
        }
        attach::attach(target, self.image, self.options.for_engine(), held)
    }

    /// From the attach to the report.
    fn watch(
        &self,
        lease: &Lease,
        mut session: Session<'_>,
        record: Record,
        path: Option<PathBuf>,
        line: &mut Line,
        report: &mut Report,
    ) {
        announce(line, &session, report, path);
        let ending = record.observe(line, &mut session, &self.options, report);
        if !matches!(ending, End::Ended | End::Execed) {
            lease.leave();
        }
    }
}
