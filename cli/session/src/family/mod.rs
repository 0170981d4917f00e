//! The tracing thread where a program is followed through its execs, and with `--follow-forks` into
//! its children: it hands every process to a thread of its own, passes on what those say, and makes
//! one report of theirs. What those do is a [`FamilyTask`]: they watch, or check.

mod checking;
pub mod member;
mod watching;

use std::{
    collections::BTreeMap,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use heapattach_injector::{
    family::{Family, Lease, Occurrence, Scope},
    target::start::StartError,
};
use heapattach_process::offspring::Offspring;
use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit, setrlimit},
};

use crate::{
    client::{
        channel::{Heard, Line, Mouth},
        message::{Message, Request},
    },
    family::member::{Business, Cause, Member},
    fork::Waiting,
    watch::{
        end,
        inheritance::{Estate, Estates},
    },
};
use heapattach_ledger::ExitReport;
use heapattach_report::{NotLookedAt, Outcome, Report};
use heapattach_text::error_chain::with_causes;
use heapattach_text::quantity;

pub use checking::run as check;
pub use watching::{attach, run as watch};

/// How long at most until the command is listened to again.
const TURN: Duration = Duration::from_millis(100);

/// What is done with each process of a followed family.
trait FamilyTask {
    /// For one of them.
    type Business: Business;

    /// Which processes are followed.
    fn scope(&self) -> Scope;

    /// How long it goes on, if not until the end.
    fn duration(&self) -> Option<Duration>;

    /// What is done with the next process, for so long; `is_own`: it is the first one, or what that
    /// became. `estate` is what the parent's session left, if it was forked from a process that has
    /// one.
    fn business(
        &mut self,
        number: usize,
        is_own: bool,
        left: Option<Duration>,
        estate: Option<Arc<Estate>>,
    ) -> Self::Business;

    /// What the sessions leave to those of children.
    fn estates(&self) -> &Estates;

    /// Sees to it that what the user named is what the report is about, with all reports, and
    /// which of them are of the first process.
    fn arrange(&self, reports: &mut BTreeMap<usize, Report>, own: &[usize]);
}

/// A session that goes on in a thread.
#[derive(Debug)]
struct MemberState {
    pid: i32,
    parent: i32,
    ear: Option<UnixStream>,
    counts: (u64, u64),
    /// How it ended, as wait(2) says.
    exit: Option<i32>,
}

impl MemberState {
    fn ask(&self, request: Request) {
        if let Some(ear) = &self.ear {
            let _ = io::Write::write_all(&mut &*ear, &[request as u8]);
        }
    }
}

/// All of them, and what is known of those that are over.
#[derive(Debug)]
struct FamilySession<'a, T> {
    family: Family,
    scope: Scope,
    line: &'a mut Line,
    task: T,
    /// The first process.
    pid: i32,
    deadline: Option<Instant>,
    members: usize,
    member_states: BTreeMap<usize, MemberState>,
    parents: BTreeMap<i32, i32>,
    reports: BTreeMap<usize, Report>,
    /// Where members speak, and where that is heard.
    messages: Sender<(usize, Message)>,
    talk: Receiver<(usize, Message)>,
    /// Processes that no thread could be had for.
    left_out: u64,
    /// How the first process ended, as wait(2) says.
    exit: Option<i32>,
    is_gone: bool,
    is_told: bool,
}

/// Lets the forked child exec, under our eyes, and follows it; how it ended, if it did.
fn run(
    line: &mut Line,
    program: &Waiting,
    task: impl FamilyTask,
    report: &mut Report,
) -> Result<Option<ExitReport>, StartError> {
    let begun = FamilySession::new(line, program.pid, task).and_then(|mut family_session| {
        family_session.family.seize(program.pid)?;
        Ok(family_session)
    });
    let mut family_session = begun.map_err(|errno| {
        let error = StartError::Request(errno);
        report.error = Some(with_causes(&error));
        error
    })?;
    program.go().map_err(|_| StartError::Ended)?;
    family_session.follow(true);
    let exit = family_session.exit;
    if family_session.reports.is_empty() {
        report.error = Some(with_causes(&StartError::Ended));
        return Err(StartError::Ended);
    }
    *report = family_session.conclude();
    end::correct(report, exit);
    Ok(exit.map(ExitReport::from_wait))
}

impl<'a, T: FamilyTask> FamilySession<'a, T> {
    fn new(line: &'a mut Line, pid: i32, task: T) -> Result<Self, Errno> {
        raise_descriptors();
        let (messages, talk) = channel();
        let scope = task.scope();
        Ok(Self {
            family: Family::new(scope)?,
            scope,
            line,
            deadline: task.duration().map(|duration| Instant::now() + duration),
            task,
            pid,
            members: 0,
            member_states: BTreeMap::new(),
            parents: BTreeMap::new(),
            reports: BTreeMap::new(),
            messages,
            talk,
            left_out: 0,
            exit: None,
            is_gone: false,
            is_told: false,
        })
    }

    /// Until all is over. `is_child`: the first process is a child of ours.
    fn follow(&mut self, is_child: bool) {
        let bell = self.family.bell();
        loop {
            // A command that is gone would be heard for ever.
            let other = if self.is_gone { bell.as_fd() } else { self.line.as_fd() };
            for occurrence in self.family.turn(other, TURN) {
                self.take(occurrence);
            }
            while let Ok((number, message)) = self.talk.try_recv() {
                self.hear(number, message);
            }
            if !self.is_gone {
                let heard = self.line.hear();
                heard.into_iter().for_each(|heard| self.obey(heard));
            }
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                self.family.close();
            }
            if self.member_states.is_empty() && self.is_over(is_child) {
                return;
            }
        }
    }

    fn is_over(&mut self, is_child: bool) -> bool {
        let has_ended = self.exit.is_some() || !is_child;
        if self.is_gone || self.family.is_closing() {
            return has_ended || self.is_gone;
        }
        has_ended && self.family.size() == 0
    }

    fn take(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Execed(lease, parent) => {
                if let Some(parent) = parent {
                    self.parents.insert(lease.pid(), parent);
                }
                let is_required = self.members == 0;
                self.house(lease, Cause::Execed { is_required });
            }
            Occurrence::Born(lease, parent) => {
                self.parents.insert(lease.pid(), parent);
                self.house(lease, Cause::Born);
            }
            Occurrence::Ended(pid, status) => self.ended(pid, status),
        }
    }

    fn ended(&mut self, pid: i32, status: i32) {
        if pid == self.pid {
            self.exit = Some(status);
        }
        self.parents.remove(&pid);
        let own = self.member_states.values_mut().filter(|member_state| member_state.pid == pid);
        own.for_each(|member_state| member_state.exit = Some(status));
        let last = self.reports.values_mut().rev().find(|report| report.pid == pid);
        let is_its_end =
            |report: &&mut Report| report.exit.is_none() && report.outcome != Outcome::Execed;
        if let Some(report) = last.filter(is_its_end) {
            end::correct(report, Some(status));
        }
        if pid == self.pid && self.scope != Scope::Execs && self.family.size() > 0 && !self.is_told
        {
            self.is_told = true;
            self.line.send(&Message::Remain(self.family.size()));
        }
    }

    /// Gives a process a thread of its own.
    fn house(&mut self, lease: Lease, cause: Cause) {
        let (pid, number) = (lease.pid(), self.members);
        let parent = self.parents.get(&pid).copied().unwrap_or(0);
        self.members += 1;
        let Ok((ear, theirs)) = UnixStream::pair() else {
            self.left_out += 1;
            return;
        };
        let left = self.deadline.map(|end| end.saturating_duration_since(Instant::now()));
        let is_born = cause == Cause::Born;
        let estate = is_born.then(|| self.task.estates().of(parent)).flatten();
        let business = self.task.business(number, pid == self.pid, left, estate.clone());
        let member = Member { lease, cause, business, estate };
        let mouth =
            Mouth { member: number, messages: self.messages.clone(), bell: self.family.bell() };
        let line = Line::within(theirs, mouth);
        let name = format!("process {pid}");
        let started =
            thread::Builder::new().name(name).spawn(move || member.look_into(line)).is_ok();
        if started {
            let member_state =
                MemberState { pid, parent, ear: Some(ear), counts: (0, 0), exit: None };
            self.member_states.insert(number, member_state);
        } else {
            // The lease is returned by now, and the process runs on.
            self.left_out += 1;
        }
    }

    fn hear(&mut self, number: usize, message: Message) {
        let is_first = self
            .member_states
            .get(&number)
            .is_some_and(|member_state| member_state.pid == self.pid);
        match message {
            Message::Finished(report) => self.finished(number, *report),
            Message::Progress { calls, bytes } => {
                if let Some(member_state) = self.member_states.get_mut(&number) {
                    member_state.counts = (calls, bytes);
                }
                let all = self.member_states.values().map(|member_state| member_state.counts);
                let (calls, bytes) = all.fold((0_u64, 0_u64), |sum, one| {
                    (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1))
                });
                self.line.send(&Message::Progress { calls, bytes });
            }
            Message::Reached { .. } => {
                self.line.send(&message);
                self.end_others(number);
            }
            Message::Grows(_) => self.line.send(&message),
            // One process is talked of; the others are in the report.
            other if is_first => self.line.send(&other),
            _ => {}
        }
    }

    fn finished(&mut self, number: usize, mut report: Report) {
        let Some(member_state) = self.member_states.remove(&number) else { return };
        report.parent = member_state.parent;
        match report.outcome {
            Outcome::Shared => return,
            Outcome::Exited => end::correct(&mut report, member_state.exit),
            Outcome::Refused if number == 0 => self.family.close(),
            // The limits of a session are those of the whole.
            Outcome::Detached if report.pid == self.pid => self.family.close(),
            Outcome::Refused
            | Outcome::Detached
            | Outcome::Execed
            | Outcome::Failed
            | Outcome::Interrupted
            | Outcome::Aside
            | Outcome::Skipped => {}
        }
        self.reports.insert(number, report);
    }

    fn obey(&mut self, heard: Heard) {
        let request = match heard {
            Heard::Mark => Request::Mark,
            Heard::Detach => Request::Detach,
            Heard::Over => Request::Over,
            Heard::Gone => {
                self.is_gone = true;
                self.family.close();
                self.member_states.values_mut().for_each(|member_state| member_state.ear = None);
                return;
            }
        };
        if request == Request::Detach {
            self.family.close();
        }
        self.member_states.values().for_each(|member_state| member_state.ask(request));
    }

    /// What one process is waited for ends the session of all.
    fn end_others(&mut self, number: usize) {
        self.family.close();
        let others = self.member_states.iter().filter(|(other, _)| **other != number);
        others.for_each(|(_, member_state)| member_state.ask(Request::Over));
    }

    fn numbers(&self, which: impl Fn(&Report) -> bool) -> Vec<usize> {
        self.reports.iter().filter(|(_, report)| which(report)).map(|(&n, _)| n).collect()
    }

    /// One report of all: of what the first process was last, with the others in it.
    fn conclude(mut self) -> Report {
        let of_first = |report: &Report| report.pid == self.pid;
        // What could not be looked at is a line of its own, if anything else could.
        let is_told = |report: &Report| of_first(report) && report.outcome != Outcome::Refused;
        let own: Vec<usize> = self.numbers(is_told);
        let own = if own.is_empty() { self.numbers(of_first) } else { own };
        let last = own.last().copied().or_else(|| self.reports.keys().next().copied());
        self.task.arrange(&mut self.reports, &own);
        let main = last.and_then(|number| self.reports.remove(&number));
        let mut main = main.unwrap_or_default();
        main.processes = self.reports.into_values().collect();
        tell_trigger(&mut main);
        main.together = heapattach_report::together(&main);
        let count = self.family.not_looked_at() + self.left_out;
        if count > 0 {
            let why = match self.scope {
                Scope::Forks { most, .. } if self.left_out == 0 => {
                    format!("more than --max-processes {most}")
                }
                _ => "threads or descriptors of our own ran out".to_owned(),
            };
            main.not_looked_at = Some(NotLookedAt { count: Some(count), why });
        } else {
            let came = self.family.offspring().and_then(|now| now.since(Offspring::default()));
            main.not_looked_at = came.map(|came| not_followed(&came));
        }
        main
    }
}

/// What a child was waited for is why all ended.
fn tell_trigger(main: &mut Report) {
    if main.trigger.is_some() {
        return;
    }
    let came = main.processes.iter().find_map(|one| Some((one.pid, one.trigger?)));
    if let Some((pid, trigger)) = came {
        main.trigger = Some(trigger);
        if main.outcome == Outcome::Detached && main.why.is_none() {
            main.why = Some(format!("{trigger}, in process {pid}"));
        }
    }
}

/// Children that the user did not ask to follow.
pub fn not_followed(came: &Offspring) -> NotLookedAt {
    let time = quantity::time(came.time);
    let living = match came.living {
        0 => String::new(),
        living => format!("; {living} still live"),
    };
    let why = format!("they took {time} of processor time{living}; add --follow-forks to see them");
    NotLookedAt { count: None, why }
}

/// Every session holds a dozen of them.
fn raise_descriptors() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
