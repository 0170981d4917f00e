//! Processes that are met at their ends: each of their threads is stopped once more, with all of
//! memory there, until the holder of the lease lets them go. A thread that
//! ends alone is not held.
//!
//! Threads that end because another one execs stand here only until that is known: it waits for
//! them.

use std::time::{Duration, Instant};

use super::{Family, Stage};
use crate::trace::{
    delegated::Fate,
    exit_sign::{Sign, is_execing},
    seen::Seen,
    tracer::Tracer,
};
use heapattach_process::proc::Process;

/// How often threads that stand at their ends are looked at, until all have come.
pub(super) const GATHERING: Duration = Duration::from_millis(1);

/// How long they may be waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How far a process is on the way to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It runs.
    Runs,
    /// Threads end because of one that ends all of them, or execs.
    Unclear(Instant),
    /// It ends; not all threads are there.
    Ends(Instant),
    /// They are, and the holder of the lease knows.
    Told,
}

impl Family {
    /// A thread has come to its end; answers whether all that is to be done about it is done.
    pub(super) fn comes_to_end(&mut self, tid: i32) -> bool {
        let Some(tracee) = self.tracees.get_mut(&tid) else { return false };
        tracee.is_at_end = true;
        let (pid, lease) = (tracee.process, tracee.lease);
        if self.processes.get(&pid) == Some(&Stage::Leaving) {
            return false;
        }
        let met = self.rented.iter().find(|(_, rented)| rented.pid == pid && rented.end.is_some());
        let Some((&number, _)) = met else { return false };
        let sign = Sign::of(&Tracer::Own, tid, || self.coming(pid).is_empty());
        let Some(rented) = self.rented.get_mut(&number) else { return false };
        rented.end = match (rented.end, sign) {
            (before, Sign::Alone) => before,
            (Some(Progress::Runs | Progress::Unclear(_)), Sign::Whole) => {
                Some(Progress::Ends(Instant::now()))
            }
            (Some(Progress::Runs), Sign::Unclear) => Some(Progress::Unclear(Instant::now())),
            (before, _) => before,
        };
        if !self.is_held_at_end(tid) {
            self.run_on(tid);
        } else if lease == Some(number) {
            self.post(number, tid, Seen::Event(libc::PTRACE_EVENT_EXIT));
        }
        self.weigh(number);
        true
    }

    /// The process may have come to its end before a session wanted to meet it there.
    pub(super) fn find_end(&mut self, number: u64) {
        let Some(rented) = self.rented.get_mut(&number) else { return };
        let pid = rented.pid;
        if self.tracees.values().any(|t| t.process == pid && t.is_at_end && t.halt.is_some()) {
            rented.end = Some(Progress::Unclear(Instant::now()));
            self.weigh(number);
        }
    }

    /// Threads of a process that are not at their ends. Of a process of thousands the kernel is only
    /// asked when none is left that we know of: each of them ends.
    fn coming(&self, pid: i32) -> Vec<i32> {
        let own = self.tracees.iter().filter(|(_, t)| t.process == pid && !t.is_at_end);
        let known: Vec<i32> = own.map(|(&tid, _)| tid).collect();
        if !known.is_empty() {
            return known;
        }
        let Ok(process) = Process::open(pid) else { return known };
        let is_alive =
            |tid: &i32| process.thread_state(*tid).is_some_and(|state| !matches!(state, 'Z' | 'X'));
        let threads = process.threads().unwrap_or_default().into_iter();
        threads.filter(|tid| !self.tracees.contains_key(tid)).filter(is_alive).collect()
    }

    /// Whether a thread stands at the end of its process, or may do so, and goes no further.
    pub(super) fn is_held_at_end(&self, tid: i32) -> bool {
        let Some(tracee) = self.tracees.get(&tid).filter(|t| t.is_at_end) else { return false };
        let is_met = |progress| !matches!(progress, None | Some(Progress::Runs));
        let mut own = self.rented.values().filter(|rented| rented.pid == tracee.process);
        tracee.halt.is_some() && own.any(|rented| is_met(rented.end))
    }

    /// Looks at the processes whose threads are not all there; answers whether there are any.
    pub(super) fn weigh_ends(&mut self) -> bool {
        let is_open =
            |end: Option<Progress>| matches!(end, Some(Progress::Unclear(_) | Progress::Ends(_)));
        let open = |family: &Self| -> Vec<u64> {
            let open = family.rented.iter().filter(|(_, rented)| is_open(rented.end));
            open.map(|(&number, _)| number).collect()
        };
        open(self).into_iter().for_each(|number| self.weigh(number));
        !open(self).is_empty()
    }

    /// Says so if all threads are there, and lets those go on that stand for an exec.
    fn weigh(&mut self, number: u64) {
        let Some(rented) = self.rented.get(&number) else { return };
        let pid = rented.pid;
        let (since, is_clear) = match rented.end {
            Some(Progress::Unclear(since)) => (since, false),
            Some(Progress::Ends(since)) => (since, true),
            None | Some(Progress::Runs | Progress::Told) => return,
        };
        let coming = self.coming(pid);
        let is_late = since.elapsed() > PATIENCE;
        if coming.is_empty() || is_clear && is_late {
            let own = self.tracees.iter().filter(|(_, t)| t.process == pid && t.is_at_end);
            let own = own.filter(|(_, tracee)| tracee.halt.is_some());
            let stand: Vec<i32> = own.map(|(&tid, _)| tid).collect();
            if let Some(rented) = self.rented.get_mut(&number) {
                rented.end = Some(Progress::Told);
                rented.mailbox.tell(Fate::Ends(stand));
            }
        } else if !is_clear && (is_late || is_execed(pid, &coming)) {
            if let Some(rented) = self.rented.get_mut(&number) {
                rented.end = Some(Progress::Runs);
            }
            self.let_end(pid);
        }
    }

    /// Lets the threads of a process go on that stand at their ends.
    pub(super) fn let_end(&mut self, pid: i32) {
        let own = self.tracees.iter().filter(|(_, t)| t.process == pid && t.is_at_end);
        let own: Vec<i32> = own.map(|(&tid, _)| tid).collect();
        own.into_iter().for_each(|tid| self.run_on(tid));
    }
}

/// Whether one of these threads waits in an exec for the others. It is the last one to be missing.
fn is_execed(pid: i32, coming: &[i32]) -> bool {
    const FEW: usize = 4;
    let is_few = coming.len() <= FEW;
    is_few
        && Process::open(pid)
            .is_ok_and(|process| coming.iter().any(|&tid| is_execing(&process, tid)))
}
