//! What those who hold leases want of the tracing thread.

use std::sync::Arc;

use nix::errno::Errno;

use super::{Family, Halt, Progress, Tracee, is_ours};
use crate::trace::{
    delegated::{Effect, Order, Task},
    seen::Seen,
};

impl Family {
    pub(super) fn obey(&mut self, order: Order) {
        let number = order.lease;
        match order.task {
            Task::Tell { tid, effect, request, answer } => {
                let _ = answer.send(self.tell(number, tid, effect, request));
            }
            Task::Ask { tid, request } => request(self.permit(number, tid)),
            Task::Walk { tid, steps, answer } => {
                let _ = answer.send(Ok(self.walk(number, tid, &steps)));
            }
            Task::LetGo => {
                if let Some(rented) = self.rented.get_mut(&number) {
                    rented.keeps = false;
                }
                self.free(number, |tracee| tracee.is_kept);
            }
            Task::MeetEnd => {
                if let Some(rented) = self.rented.get_mut(&number) {
                    rented.end = Some(Progress::Runs);
                }
                self.find_end(number);
            }
            Task::LetEnd => {
                let Some(rented) = self.rented.get_mut(&number) else { return };
                rented.end = None;
                let pid = rented.pid;
                self.let_end(pid);
            }
            Task::Leave => {
                let Some(pid) = self.rented.get(&number).map(|rented| rented.pid) else { return };
                self.let_leave(pid);
            }
            Task::Return => {
                let rented = self.rented.remove(&number);
                self.free(number, |_| true);
                if let Some(rented) = rented {
                    self.let_end(rented.pid);
                }
            }
        }
    }

    /// Takes threads back, and lets those that are stopped run.
    pub(super) fn free(&mut self, number: u64, which: impl Fn(&Tracee) -> bool) {
        let own = self.tracees.iter().filter(|(_, t)| t.lease == Some(number) && which(t));
        let own: Vec<i32> = own.map(|(&tid, _)| tid).collect();
        for tid in own {
            self.take_back(number, tid);
            self.run_on(tid);
        }
    }

    pub(super) fn take_back(&mut self, number: u64, tid: i32) {
        if let Some(tracee) = self.tracees.get_mut(&tid) {
            tracee.lease = None;
        }
        if let Some(rented) = self.rented.get(&number) {
            rented.mailbox.take_back(tid);
        }
    }

    pub(super) fn permit(&self, number: u64, tid: i32) -> Result<(), Errno> {
        let is_lent = self.tracees.get(&tid).is_some_and(|tracee| tracee.lease == Some(number));
        if is_lent { Ok(()) } else { Err(Errno::ESRCH) }
    }

    pub(super) fn tell(
        &mut self,
        number: u64,
        tid: i32,
        effect: Effect,
        request: Box<dyn FnOnce() -> Result<(), Errno> + Send>,
    ) -> Result<(), Errno> {
        if effect == Effect::Lends {
            return self.lend(number, tid, request);
        }
        self.permit(number, tid)?;
        let stands = self.is_held_at_end(tid);
        let Some(tracee) = self.tracees.get_mut(&tid) else { return Err(Errno::ESRCH) };
        match effect {
            Effect::Interrupts if stands => {
                self.post(number, tid, Seen::Event(libc::PTRACE_EVENT_EXIT));
                Ok(())
            }
            // It goes no further: the session that borrowed it for a call is to give up.
            Effect::Runs if stands => Err(Errno::ESRCH),
            Effect::Interrupts if tracee.is_kept => {
                self.post(number, tid, Seen::Interrupted);
                Ok(())
            }
            Effect::Runs => {
                request()?;
                (tracee.halt, tracee.is_kept) = (None, false);
                Ok(())
            }
            Effect::GivesBack(signal) => {
                let keeps = self.rented.get(&number).is_some_and(|rented| rented.keeps);
                if keeps && signal == 0 && tracee.halt.is_some() {
                    tracee.is_kept = true;
                    return Ok(());
                }
                if signal != 0 && tracee.halt.is_some() {
                    tracee.halt = Some(Halt::Signal(signal));
                }
                self.take_back(number, tid);
                self.run_on(tid);
                Ok(())
            }
            Effect::Interrupts | Effect::Lends => request(),
        }
    }

    pub(super) fn lend(
        &mut self,
        number: u64,
        tid: i32,
        request: Box<dyn FnOnce() -> Result<(), Errno> + Send>,
    ) -> Result<(), Errno> {
        let rented = self.rented.get(&number).ok_or(Errno::ESRCH)?;
        let (pid, mailbox) = (rented.pid, Arc::clone(&rented.mailbox));
        if !self.tracees.contains_key(&tid) {
            match request() {
                Ok(()) => {}
                // Born traced; its first stop has not been told yet.
                Err(Errno::EPERM) if is_ours(tid) => {}
                Err(errno) => return Err(errno),
            }
            self.insert(tid, pid);
        }
        let Some(tracee) = self.tracees.get_mut(&tid) else { return Err(Errno::ESRCH) };
        if tracee.process != pid || tracee.lease.is_some_and(|other| other != number) {
            return Err(Errno::ESRCH);
        }
        tracee.lease = Some(number);
        mailbox.lend(tid);
        Ok(())
    }
}
