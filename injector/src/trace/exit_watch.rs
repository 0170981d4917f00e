//! Keeping a target traced between stops, so that its end can be met: every thread that goes stops
//! once more while all of memory is still there.
//!
//! The program notices nothing: signals are passed on, a stop of the whole process stays one, new
//! threads go on at once, children of the program are left alone. Without a stop of ours it
//! runs at full speed.

use std::{
    os::fd::{AsFd, BorrowedFd},
    time::{Duration, Instant},
};

use nix::errno::Errno;

use crate::trace::{
    exit_sign::{Sign, is_execing},
    insist::insist,
    seen::Seen,
    stopped::{StopError, Stopped},
    target::Target,
    tracer::Tracer,
    wait::{look_at_any, look_at_any_end},
};
use crate::{arch, module::find_symbol};
use heapattach_process::{addr::RemoteAddr, linker::Rendezvous, proc::maps, told_loader};

/// How long the other threads of a process that ends may take to stand at their own ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps a target traced.
#[derive(Debug)]
pub struct ExitWatch<'t> {
    target: &'t Target,
    /// The signal that is told instead of passed on.
    watched: Option<i32>,
    /// An instruction that is told when a thread comes to it, and whether one did.
    mark: Option<(RemoteAddr, bool)>,
    /// Threads that were let go to their end.
    gone: Vec<i32>,
}

/// Something that concerns the process as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It ends; its threads stand where they are.
    Ends,
    /// It became another program, and stands before its first instruction.
    Execs,
    /// The signal that is watched for was sent; the program has not seen it.
    Signalled,
    /// The first thread came to the mark.
    Reached,
    /// It is gone; it was not met at its end.
    Gone,
}

/// Who meets a process at its end.
pub trait Attendant<'t> {
    /// Sees to what happened since the last time.
    fn attend(&mut self) -> Option<Event>;

    /// Readable when something has happened.
    fn changes(&self) -> Option<BorrowedFd<'_>>;

    /// The process at its end, after [`Event::Ends`].
    ///
    /// # Errors
    /// When it was killed meanwhile.
    fn end(&self) -> Result<Stopped<'t>, StopError>;

    /// Forgets a program that is gone, after [`Event::Execs`].
    fn forget(self: Box<Self>);

    /// Lets the process run on, or end, without being met any more.
    fn finish(self: Box<Self>);
}

impl<'t> ExitWatch<'t> {
    /// Keeps a target whose one thread is stopped and traced, from its next release on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn begin(target: &'t Target, watched: Option<i32>) -> Result<Self, Errno> {
        let pid = target.process.pid();
        target.threads.keep(pid);
        set_options(target, pid)?;
        Ok(Self { target, watched, mark: None, gone: Vec::new() })
    }

    fn tracer(&self) -> &'t Tracer {
        self.target.tracer()
    }

    /// Has it told when the first thread comes to this instruction. To be called while the first
    /// thread is stopped.
    fn set_mark(&mut self, at: RemoteAddr) -> Result<(), Errno> {
        self.tracer().set_breakpoint(self.target.process.pid(), Some(at))?;
        self.mark = Some((at, false));
        Ok(())
    }

    /// Has it told when the program first calls this function of its C library.
    ///
    /// # Errors
    /// With the reason, where that cannot be had.
    pub fn mark(&mut self, function: &str) -> Result<(), String> {
        let place = c_function(self.target, function.as_bytes())
            .ok_or("the program has no C library to find it in")?;
        self.set_mark(place).map_err(|errno| format!("no debug registers: {}", errno.desc()))
    }

    fn is_at_mark(&self, tid: i32) -> bool {
        let at = insist(|| self.tracer().registers(tid))
            .map(|registers| arch::program_counter(&registers));
        self.mark.is_some_and(|(mark, _)| at == Ok(mark))
    }

    /// A thread that is new, or stopped with its process, or was interrupted once too often.
    fn meet(&mut self, tid: i32) {
        let is_known = self.target.threads.is_kept(tid);
        if !is_known {
            if self.target.process.thread_state(tid).is_none() {
                // A process of its own, made by clone.
                let _ = insist(|| self.tracer().detach(tid, 0));
                return;
            }
            self.target.threads.keep(tid);
            let _ = set_options(self.target, tid);
            if let Some((mark, false)) = self.mark {
                let _ = self.tracer().set_breakpoint(tid, Some(mark));
            }
        }
        const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        if self.tracer().stop_signal(tid).is_ok_and(|signal| STOPS.contains(&signal)) {
            let _ = insist(|| self.tracer().listen(tid));
        } else {
            self.let_go(tid, 0);
        }
    }

    /// A thread at its end: of the process, too?
    fn at_end(&mut self, tid: i32) -> Option<Event> {
        self.target.threads.add_at_end(tid);
        let sign = Sign::of(self.tracer(), tid, || self.is_last(tid));
        if sign == Sign::Alone {
            self.release(tid);
            return None;
        }
        if self.gather(sign) {
            return Some(Event::Ends);
        }
        // One of them execs, and waits for these.
        let stand = self.target.threads.at_end();
        stand.into_iter().for_each(|tid| self.release(tid));
        None
    }

    fn is_last(&self, tid: i32) -> bool {
        // Of thousands of threads not all are to be listed whenever one ends.
        let is_other = |other| other != tid && self.is_alive(other);
        !self.target.threads.any_kept(is_other) && self.others(tid).is_empty()
    }

    fn is_alive(&self, tid: i32) -> bool {
        let state = self.target.process.thread_state(tid);
        !self.gone.contains(&tid) && state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// Living threads besides this one and those that were let go to their ends.
    fn others(&self, tid: i32) -> Vec<i32> {
        let threads = self.target.process.threads().unwrap_or_default().into_iter();
        threads.filter(|other| *other != tid && self.is_alive(*other)).collect()
    }

    /// The kernel has told all others to end, too: they stop there, as this one did. Answers
    /// whether the process ends.
    fn gather(&self, sign: Sign) -> bool {
        let mut sign = sign;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            while let Some((tid, seen)) = look_at_any() {
                match seen {
                    Seen::Event(libc::PTRACE_EVENT_EXIT) => {
                        self.target.threads.add_at_end(tid);
                        if Sign::of(self.tracer(), tid, || false) == Sign::Whole {
                            sign = Sign::Whole;
                        }
                    }
                    // It may be an exec, after which the program wants to know.
                    Seen::Signal(signal) => self.let_go(tid, signal),
                    _ => self.let_go(tid, 0),
                }
            }
            let mut coming = self.others(0);
            coming.retain(|other| !self.target.threads.is_at_end(*other));
            if coming.is_empty() {
                return true;
            }
            let execs = |tid: &i32| is_execing(&self.target.process, *tid);
            if sign == Sign::Unclear && coming.iter().any(execs) {
                return false;
            }
            self.target.waiter.sleep(Duration::from_millis(1));
            self.target.waiter.clear();
        }
        sign == Sign::Whole
    }

    fn release(&mut self, tid: i32) {
        self.target.threads.forget(tid);
        let _ = insist(|| self.tracer().resume(tid, 0));
        self.gone.push(tid);
    }

    fn let_go(&self, tid: i32, signal: i32) {
        // Killed meanwhile is as good.
        let _ = self.target.let_go_kept(tid, signal);
    }

    /// Takes in the ends of threads that were not met there: one that is let go in the very moment in which
    /// another execs goes on from its end, and the exec waits for its end to be taken in.
    fn take_in_ends(&self) {
        let (pid, mut last) = (self.target.process.pid(), 0);
        while let Some(tid) = look_at_any_end().filter(|tid| ![pid, last].contains(tid)) {
            if self.target.process.thread_state(tid).is_none() {
                // A child of ours, which is seen to elsewhere.
                return;
            }
            self.target.reap_thread(tid);
            self.target.threads.forget(tid);
            last = tid;
        }
    }
}

impl<'t> Attendant<'t> for ExitWatch<'t> {
    fn attend(&mut self) -> Option<Event> {
        let target = self.target;
        target.waiter.clear();
        self.gone.retain(|&tid| {
            // In this order: one that ended in between would never be taken in, nor its process.
            let has_ended = target.tracer().look(tid) == Seen::Ended;
            if has_ended {
                target.reap_thread(tid);
            }
            !has_ended
        });
        if self.target.threads.take_execed() {
            return Some(Event::Execs);
        }
        // Some may have come to their end in a stop of ours. All of them stay known while each is looked at:
        // the first would otherwise wait for the others to come.
        for tid in self.target.threads.at_end() {
            let stands = self.target.threads.is_at_end(tid);
            if let Some(event) = stands.then(|| self.at_end(tid)).flatten() {
                return Some(event);
            }
        }
        while let Some((tid, seen)) = look_at_any() {
            match seen {
                Seen::Event(libc::PTRACE_EVENT_EXIT) => {
                    if let Some(event) = self.at_end(tid) {
                        return Some(event);
                    }
                }
                Seen::Event(libc::PTRACE_EVENT_EXEC) => return Some(Event::Execs),
                Seen::Signal(signal) if Some(signal) == self.watched => {
                    // It goes no further than to the stop that is asked for next.
                    let _ = self.tracer().interrupt_next(tid, 0);
                    return Some(Event::Signalled);
                }
                Seen::Signal(libc::SIGTRAP) if self.is_at_mark(tid) => {
                    let _ = self.tracer().set_breakpoint(tid, None);
                    let is_first = self
                        .mark
                        .as_mut()
                        .is_some_and(|(_, reached)| !std::mem::replace(reached, true));
                    if is_first {
                        // As above.
                        let _ = self.tracer().interrupt_next(tid, 0);
                        return Some(Event::Reached);
                    }
                    self.let_go(tid, 0);
                }
                Seen::Signal(signal) => self.let_go(tid, signal),
                Seen::Interrupted => self.meet(tid),
                Seen::Call | Seen::Event(_) | Seen::Ended | Seen::Nothing => self.let_go(tid, 0),
            }
        }
        self.take_in_ends();
        None
    }

    fn changes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.target.waiter.changes().as_fd())
    }

    fn end(&self) -> Result<Stopped<'t>, StopError> {
        let mut ending = self.target.threads.at_end();
        ending.sort_unstable();
        ending.dedup();
        Stopped::adopt_all(self.target, &ending)
    }

    /// What it became stays where it is, traced.
    fn forget(self: Box<Self>) {
        self.target.threads.take_kept();
        self.target.threads.take_at_end();
    }

    /// The process runs on untraced.
    fn finish(self: Box<Self>) {
        if self.mark.is_some()
            && let Ok(stop) = Stopped::all(self.target)
        {
            // The kernel would leave them set.
            for thread in stop.threads() {
                let _ = self.tracer().set_breakpoint(thread.tid, None);
            }
        }
        let mut ending = self.target.threads.take_at_end();
        let kept = self.target.threads.take_kept();
        if self.target.threads.take_execed() {
            // It stands there, and is all there is.
            ending.push(self.target.process.pid());
        }
        for &tid in &ending {
            let _ = insist(|| self.tracer().detach(tid, 0));
        }
        let left: Vec<i32> = kept.into_iter().filter(|tid| !ending.contains(tid)).collect();
        // A thread can be given back only while it stands.
        for &tid in &left {
            let _ = insist(|| self.tracer().interrupt(tid));
        }
        self.target.threads.add_late(left);
        // As long as we have not looked at the end of a thread, its process cannot end.
        self.target.threads.add_late(self.gone);
        let deadline = Instant::now() + PATIENCE;
        while self.target.threads.has_late() && Instant::now() < deadline {
            self.target.release_late();
            self.target.waiter.sleep(Duration::from_millis(1));
            self.target.waiter.clear();
        }
    }
}

fn set_options(target: &Target, tid: i32) -> Result<(), Errno> {
    target.tracer().set_options(tid, target.options | target.kept_options())
}

/// Where a function of the program's C library is.
fn c_function(target: &Target, name: &[u8]) -> Option<RemoteAddr> {
    let auxv = told_loader::auxv(&target.process).ok()?;
    let text = target.process.read("maps").ok()?;
    let maps = maps::parse(&text).ok()?;
    let lists = Rendezvous::find(&target.memory, &auxv, &maps).ok()?;
    let links = lists.modules(&target.memory).ok()?;
    let mut own = links.iter().filter(|link| link.namespace == 0 && !link.is_executable());
    own.find_map(|link| find_symbol(&target.memory, link, name).ok().flatten())
}
