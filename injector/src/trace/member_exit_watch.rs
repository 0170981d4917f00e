//! A process of a family ([`crate::trace::family`]) that is met at its end: what [`crate::trace::exit_watch`] is for
//! a process alone. The tracing thread sees to its threads; here it is only heard what became of
//! all of them.

use std::os::fd::BorrowedFd;

use crate::trace::{
    delegated::{Fate, Lease},
    exit_watch::{Attendant, Event},
    insist::insist,
    stopped::{StopError, Stopped},
    target::Target,
};

/// A process whose end is waited for, lent by the tracing thread.
#[derive(Debug)]
pub struct MemberExitWatch<'t> {
    target: &'t Target,
    lease: &'t Lease,
    /// Threads that stand at their ends.
    stand: Vec<i32>,
}

impl<'t> MemberExitWatch<'t> {
    /// Has the process of a lease, opened with its tracer, stop at its end.
    pub fn begin(target: &'t Target, lease: &'t Lease) -> Self {
        target.threads.meet_ends(true);
        lease.meet_end();
        Self { target, lease, stand: Vec::new() }
    }
}

impl<'t> Attendant<'t> for MemberExitWatch<'t> {
    fn attend(&mut self) -> Option<Event> {
        match self.lease.fate()? {
            Fate::Ends(stand) => {
                self.stand = stand;
                Some(Event::Ends)
            }
            Fate::Execs => Some(Event::Execs),
            Fate::Gone => Some(Event::Gone),
        }
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        self.lease.bell()
    }

    fn end(&self) -> Result<Stopped<'t>, StopError> {
        for &tid in &self.stand {
            // A thread that was killed meanwhile is not stopped there any more.
            let _ = insist(|| self.target.tracer().seize(tid, self.target.options));
        }
        self.target.threads.take_at_end();
        self.stand.iter().for_each(|&tid| self.target.threads.add_at_end(tid));
        Stopped::adopt_all(self.target, &self.stand)
    }

    fn forget(self: Box<Self>) {
        self.target.threads.take_at_end();
    }

    fn finish(self: Box<Self>) {
        self.target.threads.meet_ends(false);
        self.target.threads.take_at_end();
        self.lease.let_end();
    }
}
