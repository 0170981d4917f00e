//! One process of a family, in a thread of its own: from the moment it is passed on, stopped, to
//! the report of what was done with it. Another program in the same process is another member.

use heapattach_injector::{
    detach::leftovers,
    family::Lease,
    target::{Stopped, Target, start},
};
use heapattach_process::proc::Process;

use std::sync::Arc;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{
    client::{channel::Line, message::Message},
    watch::inheritance::Estate,
};
use heapattach_report::{Outcome, Report};
use heapattach_text::error_chain::with_causes;

/// How it comes that the process is looked at now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It became a program; must it be looked at, or not run at all?
    Execed { is_required: bool },
    /// The process was forked.
    Born,
    /// The process ran already.
    Found,
}

/// What is done with every process of a family.
pub trait Business: Send + 'static {
    /// Does it, up to the report.
    fn see_to(self, standing: Standing<'_>, line: &mut Line, report: &mut Report);
}

/// A process that stands where nothing of its own has run yet, or where it was found.
#[derive(Debug)]
pub struct Standing<'t> {
    /// Its threads.
    pub lease: &'t Lease,
    /// Why this process is looked at: it was forked, execed, or ran already.
    pub cause: Cause,
    /// The process.
    pub target: &'t Target,
    /// Its one thread, where that was brought there.
    pub held: Option<Stopped<'t>>,
}

/// What to do about one process.
#[derive(Debug)]
pub struct Member<B> {
    /// Its threads.
    pub lease: Lease,
    /// Why this process is looked at: it was forked, execed, or ran already.
    pub cause: Cause,
    /// What its session does.
    pub business: B,
    /// What it has from its parent.
    pub estate: Option<Arc<Estate>>,
}

impl<B: Business> Member<B> {
    /// All of it; the report is told at the end.
    pub fn look_into(self, mut line: Line) {
        let mut report = Report::new(self.lease.pid(), String::new());
        self.run(&mut line, &mut report);
        line.send(&Message::Finished(Box::new(report)));
    }

    fn run(self, line: &mut Line, report: &mut Report) {
        let Self { lease, cause, business, estate } = self;
        let pid = lease.pid();
        let target = match Process::open(pid)
            .and_then(|process| Target::open(process, lease.tracer()))
        {
            Ok(target) => target,
            Err(errno) => {
                report.error = Some(format!("process {pid} cannot be opened: {}", errno.desc()));
                return cause.abandon(pid);
            }
        };
        report.command = target.process.command();
        let held = match cause.bring_up(&target) {
            Ok(held) => held,
            Err(start::StartError::Ended) => return report.outcome = Outcome::Exited,
            Err(error) => {
                report.error = Some(with_causes(&error));
                return cause.abandon(pid);
            }
        };
        let known = estate.and_then(|estate| estate.heritage.is_borrowed(&target));
        let is_borrowed = || known.unwrap_or_else(|| leftovers::is_borrowed(&target));
        if cause == Cause::Born && is_borrowed() {
            // What it does is counted as its parent's, whose memory it shares until it execs.
            return report.outcome = Outcome::Shared;
        }
        business.see_to(Standing { lease: &lease, cause, target: &target, held }, line, report);
    }
}

impl Cause {
    /// Brings it to where nothing of its own has run yet.
    fn bring_up(self, target: &Target) -> Result<Option<Stopped<'_>>, start::StartError> {
        match self {
            Self::Execed { .. } => start::hold_at_start(target).map(Some),
            Self::Born | Self::Found => Ok(None),
        }
    }

    /// A program that cannot be watched must not run unwatched under our name; but what it became
    /// by itself, or forked, is its own affair.
    pub fn abandon(self, pid: i32) {
        if matches!(self, Self::Execed { is_required: true }) {
            // The tracing thread takes in its end.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
