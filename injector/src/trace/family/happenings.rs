//! What threads do, and what is made of it: who is born, execs, ends, and who simply runs on.

use std::time::Instant;

use nix::{errno::Errno, sys::ptrace::Options};

use super::{Birth, Family, Halt, NAMELESS, Occurrence, Scope, Stage};
use crate::trace::{
    delegated::Fate,
    insist::insist,
    seen::Seen,
    target::suspend_seccomp,
    tracer::Tracer,
    wait::{self},
};
use heapattach_process::{fault, offspring::Offspring, proc::Process};

impl Family {
    /// A thread that is seen for the first time.
    pub(super) fn meet(&mut self, tid: i32) {
        let status = Process::open(tid).and_then(|process| process.status());
        let process = status.map_or(tid, |status| status.tgid);
        self.insert(tid, process);
        if process != tid {
            self.births.remove(&tid);
        } else if !self.processes.contains_key(&tid) {
            self.admit(tid, Stage::Nameless(Instant::now()));
        }
    }

    pub(super) fn stopped(&mut self, tid: i32, status: i32) {
        if !self.tracees.contains_key(&tid) {
            self.meet(tid);
        }
        let seen = wait::meaning(status);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        tracee.halt = Some(match seen {
            Seen::Signal(signal) => Halt::Signal(signal),
            Seen::Interrupted if status & 0xff != libc::SIGTRAP => Halt::Group,
            _ => Halt::Other,
        });
        match seen {
            Seen::Event(libc::PTRACE_EVENT_EXEC) => return self.execed(tid),
            Seen::Event(
                event @ (libc::PTRACE_EVENT_FORK
                | libc::PTRACE_EVENT_VFORK
                | libc::PTRACE_EVENT_CLONE),
            ) => self.told_of_birth(tid, event),
            Seen::Event(libc::PTRACE_EVENT_EXIT) => {
                if self.scope == Scope::Execs {
                    let process = Process::open(tid).ok();
                    self.offspring = process.as_ref().and_then(Offspring::of);
                }
                if self.comes_to_end(tid) {
                    return;
                }
            }
            _ => {}
        }
        self.route(tid, seen);
    }

    /// What is done with a thread that stopped.
    pub(super) fn route(&mut self, tid: i32, seen: Seen) {
        let Some(tracee) = self.tracees.get(&tid) else { return };
        match self.processes.get(&tracee.process) {
            Some(Stage::Leaving) => self.detach(tid),
            Some(Stage::Nameless(_)) if tracee.process == tid => self.name(tid),
            _ => match tracee.lease {
                Some(lease) => self.post(lease, tid, seen),
                None => self.run_on(tid),
            },
        }
    }

    pub(super) fn post(&mut self, lease: u64, tid: i32, seen: Seen) {
        if seen == Seen::Interrupted {
            self.lift_filter(tid);
        }
        if let Some(rented) = self.rented.get(&lease) {
            rented.mailbox.post(tid, seen);
        }
    }

    /// A session that borrows a thread may have it make system calls that a filter forbids.
    pub(super) fn lift_filter(&mut self, tid: i32) {
        if !self.may_suspend {
            return;
        }
        let status = Process::open(tid).and_then(|process| process.status());
        if status.is_ok_and(|status| status.seccomp != 0) {
            let lifted = set_options(tid, self.options | suspend_seccomp());
            if let Some(tracee) = self.tracees.get_mut(&tid) {
                tracee.is_unfiltered = lifted.is_ok();
            }
        }
    }

    /// A process in the middle of a fork: a child will turn up, or has.
    pub(super) fn told_of_birth(&mut self, tid: i32, event: i32) {
        let parent = self.tracees.get(&tid).map_or(tid, |tracee| tracee.process);
        let child = Tracer::Own.event_message(tid);
        // A thread is no process.
        let is_thread = |child| self.tracees.get(child).is_some_and(|t| t.process != *child);
        if child.as_ref().is_ok_and(is_thread) {
            return;
        }
        for rented in self.rented.values().filter(|rented| rented.pid == parent) {
            rented.mailbox.note_birth();
        }
        let Ok(child) = child else { return };
        let birth = Birth { parent, shares_memory: event == libc::PTRACE_EVENT_VFORK };
        self.births.insert(child, birth);
        if matches!(self.processes.get(&child), Some(Stage::Nameless(_))) {
            self.name(child);
        }
    }

    /// Decides about a newborn, once both it and its parent were heard.
    pub(super) fn name(&mut self, pid: i32) {
        if self.tracees.get(&pid).is_none_or(|tracee| tracee.halt.is_none()) {
            return;
        }
        let Some(birth) = self.births.remove(&pid) else { return };
        if birth.shares_memory && !self.is_closing {
            self.births.insert(pid, birth);
            self.processes.insert(pid, Stage::Borrowing);
            return self.run_on(pid);
        }
        if self.is_welcome() {
            self.admit(pid, Stage::Followed);
            let lease = self.rent(pid);
            self.occurrences.push(Occurrence::Born(lease, birth.parent));
        } else {
            self.let_leave(pid);
        }
    }

    /// Whether there is room for one more; if not, a process is not looked at.
    pub(super) fn is_welcome(&mut self) -> bool {
        let is_room = self.followed < self.scope.limit();
        self.not_looked_at += u64::from(!is_room && !self.is_closing);
        is_room && !self.is_closing
    }

    pub(super) fn forget_nameless(&mut self) {
        let is_old =
            |stage: &Stage| matches!(stage, Stage::Nameless(since) if since.elapsed() > NAMELESS);
        let old: Vec<i32> =
            self.processes.iter().filter(|(_, stage)| is_old(stage)).map(|(&pid, _)| pid).collect();
        for pid in old {
            self.not_looked_at += 1;
            self.let_leave(pid);
        }
    }

    /// Only the thread that called it is left, and it is the first one now.
    pub(super) fn execed(&mut self, pid: i32) {
        self.tracees.retain(|&tid, tracee| tid == pid || tracee.process != pid);
        let revoked: Vec<u64> =
            self.rented.iter().filter(|(_, r)| r.pid == pid).map(|(&number, _)| number).collect();
        for number in revoked {
            if let Some(rented) = self.rented.remove(&number) {
                rented.mailbox.tell(Fate::Execs);
                rented.mailbox.close();
            }
        }
        let Some(tracee) = self.tracees.get_mut(&pid) else { return };
        (tracee.lease, tracee.is_kept, tracee.process) = (None, false, pid);
        tracee.is_at_end = false;
        let birth = self.births.remove(&pid);
        let is_known = self.processes.get(&pid) == Some(&Stage::Followed);
        if self.processes.get(&pid) == Some(&Stage::Leaving) || self.is_closing {
            return self.let_leave(pid);
        }
        if !is_known {
            if !self.is_welcome() {
                return self.let_leave(pid);
            }
            self.admit(pid, Stage::Followed);
        }
        let lease = self.rent(pid);
        let parent = birth.map(|birth| birth.parent);
        self.occurrences.push(Occurrence::Execed(lease, parent));
    }

    pub(super) fn ended(&mut self, tid: i32, status: i32) {
        self.births.remove(&tid);
        let tracee = self.tracees.remove(&tid);
        if let Some(rented) = tracee.as_ref().and_then(|t| self.rented.get(&t.lease?)) {
            rented.mailbox.post(tid, Seen::Ended);
        }
        if tracee.is_some_and(|tracee| tracee.process != tid) {
            return;
        }
        for rented in self.rented.values().filter(|rented| rented.pid == tid) {
            rented.mailbox.tell(Fate::Gone);
        }
        // A process; perhaps a child of ours that was let go before.
        self.processes.remove(&tid);
        self.tracees.retain(|_, tracee| tracee.process != tid);
        self.occurrences.push(Occurrence::Ended(tid, status));
    }

    /// Lets a thread run on as if it had not been stopped.
    pub(super) fn run_on(&mut self, tid: i32) {
        if self.is_held_at_end(tid) {
            return;
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return };
        if std::mem::take(&mut tracee.is_unfiltered) {
            let _ = set_options(tid, self.options);
        }
        tracee.is_kept = false;
        // A thread that is gone meanwhile needs nothing.
        let _ = match tracee.halt.take() {
            None => Ok(()),
            Some(Halt::Group) => insist(|| Tracer::Own.listen(tid)),
            Some(Halt::Signal(signal)) => insist(|| Tracer::Own.resume(tid, signal)),
            Some(Halt::Other) => insist(|| Tracer::Own.resume(tid, 0)),
        };
    }

    /// The same, and it is not traced any more.
    pub(super) fn detach(&mut self, tid: i32) {
        let Some(tracee) = self.tracees.remove(&tid) else { return };
        let signal = if let Some(Halt::Signal(signal)) = tracee.halt { signal } else { 0 };
        let _ = insist(|| Tracer::Own.detach(tid, signal));
        if !self.tracees.values().any(|other| other.process == tracee.process) {
            self.processes.remove(&tracee.process);
        }
    }

    pub(super) fn let_leave(&mut self, pid: i32) {
        self.processes.insert(pid, Stage::Leaving);
        let own = self.tracees.iter().filter(|(_, tracee)| tracee.process == pid);
        let own: Vec<(i32, bool)> = own.map(|(&tid, t)| (tid, t.halt.is_some())).collect();
        for (tid, is_stopped) in own {
            if is_stopped {
                self.detach(tid);
            } else {
                let _ = Tracer::Own.interrupt(tid);
            }
        }
    }
}

fn set_options(tid: i32, options: Options) -> Result<(), Errno> {
    fault::point("PTRACE_SETOPTIONS")?;
    Tracer::Own.set_options(tid, options)
}
