//! One process of a family, in a thread of its own: from the moment it is handed out, stopped, to
//! the report of its session. Another program in the same process is another member.

use std::path::PathBuf;

use heapattach_injector::{
    attach, failure::AttachError, failure::Failure, lease::Lease, leftovers, proc::Process,
    session::Session, start, stopped::Stopped, target::Target,
};

use crate::{
    args::SessionArgs,
    compose::with_causes,
    ending::End,
    guard,
    line::Line,
    message::Message,
    observation::Record,
    payload,
    recording::{self, Recording, Store},
    report::Report,
    tracer::{announce, end_program, options, refuse, store_for},
    view::Summary,
};

/// How it comes that the process is looked at now.
#[derive(Debug)]
pub enum Cause {
    /// It became a program; must it be looked at, or not run at all?
    Execed { is_required: bool },
    /// It was born.
    Born,
    /// It ran already.
    Found,
}

/// What to do about one process.
#[derive(Debug)]
pub struct Member {
    /// Its threads.
    pub lease: Lease,
    /// Why now.
    pub cause: Cause,
    /// How.
    pub args: SessionArgs,
    /// Where to write it to.
    pub store: Destination,
}

/// Where a session of a family is written to.
#[derive(Debug)]
pub enum Destination {
    /// There.
    Given(Option<Store>),
    /// To a file named after the process.
    Named,
    /// To a file beside this one, named after it and the process.
    Beside(PathBuf),
    /// To nowhere that stays.
    Nowhere,
}

impl Member {
    /// All of it; the report is told at the end.
    pub fn look_into(self, mut line: Line) {
        self.lease.hold();
        let mut report = Report::new(self.lease.pid(), String::new());
        self.run(&mut line, &mut report);
        line.send(&Message::Finished(Box::new(report)));
    }

    fn run(self, line: &mut Line, report: &mut Report) {
        let pid = self.lease.pid();
        let target = match Process::open(pid).and_then(Target::open) {
            Ok(target) => target,
            Err(errno) => {
                report.error = Some(format!("process {pid} cannot be opened: {}", errno.desc()));
                return self.abandon(pid);
            }
        };
        report.command = target.process.command();
        let held = match self.bring_up(&target) {
            Ok(held) => held,
            Err(start::StartError::Ended) => return "exited".clone_into(&mut report.outcome),
            Err(error) => {
                report.error = Some(with_causes(&error));
                return self.abandon(pid);
            }
        };
        if matches!(self.cause, Cause::Born) && leftovers::is_borrowed(&target) {
            // What it does is counted as its parent's, whose memory it shares until it execs.
            return "shared".clone_into(&mut report.outcome);
        }
        let store = self.store.open(&target);
        let shared = store.as_ref().and_then(|store| store.share().ok());
        let path = store.as_ref().and_then(|store| store.path.clone());
        let record = Record::new(&target, store);
        match self.attach(&target, held) {
            Ok(mut session) => {
                self.lease.let_go();
                announce(line, &session, report, path);
                let ending = record.observe(line, &mut session, &self.args, report);
                if !matches!(ending, End::Ended | End::Execed) {
                    self.lease.leave();
                }
                sum_up(report, shared.as_ref());
            }
            Err(failure) => {
                refuse(report, &failure);
                // Nothing was recorded.
                let _ = path.map(std::fs::remove_file);
                self.abandon(pid);
            }
        }
    }

    /// Brings it to where nothing of its own has run yet.
    fn bring_up<'t>(&self, target: &'t Target) -> Result<Option<Stopped<'t>>, start::StartError> {
        match self.cause {
            Cause::Execed { .. } => start::hold_at_start(target).map(Some),
            Cause::Born | Cause::Found => Ok(None),
        }
    }

    fn attach<'t>(
        &self,
        target: &'t Target,
        held: Option<Stopped<'t>>,
    ) -> Result<Session<'t>, Failure> {
        if matches!(self.cause, Cause::Found) {
            guard::check_headroom(&target.process)
                .map_err(|refusal| Failure::clean(AttachError::from(refusal), false))?;
        }
        attach::attach(target, payload::image_for(self.args.flow), options(&self.args), held)
    }

    /// A program that cannot be watched must not run unwatched under our name; but what it became
    /// by itself, or forked, is its own affair.
    fn abandon(&self, pid: i32) {
        if matches!(self.cause, Cause::Execed { is_required: true }) {
            end_program(pid);
        }
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
