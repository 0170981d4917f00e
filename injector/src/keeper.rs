//! Keeping a target traced between stops, so that its end can be met: every thread that goes stops
//! once more while all of memory is still there.
//!
//! The program notices nothing: signals are passed on, a stop of the whole process stays one, new
//! threads go on at once, children of the program are nobody's business. Without a stop of ours it
//! runs at full speed.

use std::time::{Duration, Instant};

use nix::{
    errno::Errno,
    sys::ptrace::{getevent, getsiginfo, setoptions},
    unistd::Pid,
};

use crate::{
    addr::RemoteAddr,
    arch,
    linker::Rendezvous,
    module::find_symbol,
    proc::maps,
    ptrace,
    stopped::{StopError, Stopped, insist, interrupt_next},
    target::{Target, reap_thread},
    wait::{Seen, look, look_at_any, reap},
};

/// How long the other threads of a process that ends may take to stand at their own ends.
const PATIENCE: Duration = Duration::from_secs(2);

/// Keeps a target traced.
#[derive(Debug)]
pub struct Keeper<'t> {
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
}

impl<'t> Keeper<'t> {
    /// Keeps a target whose one thread is stopped and traced, from its next release on.
    ///
    /// # Errors
    /// When it is gone.
    pub fn begin(target: &'t Target, watched: Option<i32>) -> Result<Self, Errno> {
        let pid = target.process.pid();
        target.kept.borrow_mut().insert(pid);
        set_options(target, pid)?;
        Ok(Self { target, watched, mark: None, gone: Vec::new() })
    }

    /// Has it told when the first thread comes to this instruction. To be called while the first
    /// thread is stopped.
    fn set_mark(&mut self, at: RemoteAddr) -> Result<(), Errno> {
        ptrace::set_breakpoint(self.target.process.pid(), Some(at.get()))?;
        self.mark = Some((at, false));
        Ok(())
    }

    /// Has it told when the program begins to end in order, by its C library's `exit`.
    ///
    /// # Errors
    /// With the reason, where that cannot be had.
    pub fn mark_exit(&mut self) -> Result<(), String> {
        let exit =
            exit_function(self.target).ok_or("the program has no C library to find it in")?;
        self.set_mark(exit).map_err(|errno| format!("no debug registers: {}", errno.desc()))
    }

    /// Sees to the threads that stopped since the last time.
    pub fn attend(&mut self) -> Option<Event> {
        self.gone.retain(|&tid| {
            reap_thread(self.target.process.pid(), tid, reap);
            look(tid) != Seen::Ended
        });
        // Some may have come to their end in a stop of ours.
        let ending = self.target.ending.take();
        for tid in ending {
            if let Some(event) = self.at_end(tid) {
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
                    let _ = interrupt_next(tid, 0);
                    return Some(Event::Signalled);
                }
                Seen::Signal(libc::SIGTRAP) if self.is_at_mark(tid) => {
                    let _ = ptrace::set_breakpoint(tid, None);
                    let is_first = self
                        .mark
                        .as_mut()
                        .is_some_and(|(_, reached)| !std::mem::replace(reached, true));
                    if is_first {
                        // As above.
                        let _ = interrupt_next(tid, 0);
                        return Some(Event::Reached);
                    }
                    self.let_go(tid, 0);
                }
                Seen::Signal(signal) => self.let_go(tid, signal),
                Seen::Interrupted => self.meet(tid),
                Seen::Call | Seen::Event(_) | Seen::Ended | Seen::Nothing => self.let_go(tid, 0),
            }
        }
        None
    }

    fn is_at_mark(&self, tid: i32) -> bool {
        let at =
            insist(|| ptrace::registers(tid)).map(|registers| arch::program_counter(&registers));
        self.mark.is_some_and(|(mark, _)| at == Ok(mark))
    }

    /// A thread that is new, or stopped with its process, or was interrupted once too often.
    fn meet(&mut self, tid: i32) {
        let is_known = self.target.kept.borrow().contains(&tid);
        if !is_known {
            let own = self.target.process.threads().unwrap_or_default();
            if !own.contains(&tid) {
                // A process of its own, made by clone.
                let _ = insist(|| ptrace::detach(tid, 0));
                return;
            }
            self.target.kept.borrow_mut().insert(tid);
            let _ = set_options(self.target, tid);
            if let Some((mark, false)) = self.mark {
                let _ = ptrace::set_breakpoint(tid, Some(mark.get()));
            }
        }
        const STOPS: [i32; 4] = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
        let info = getsiginfo(Pid::from_raw(tid));
        if info.is_ok_and(|info| STOPS.contains(&info.si_signo)) {
            let _ = insist(|| ptrace::listen(tid));
        } else {
            self.let_go(tid, 0);
        }
    }

    /// A thread at its end: of the process, too?
    fn at_end(&mut self, tid: i32) -> Option<Event> {
        self.target.ending.borrow_mut().push(tid);
        if !self.is_process_ending(tid) {
            self.release(tid);
            return None;
        }
        self.gather();
        Some(Event::Ends)
    }

    fn is_process_ending(&self, tid: i32) -> bool {
        let status = getevent(Pid::from_raw(tid)).unwrap_or(0);
        let by_signal = status & 0x7f != 0;
        let call = insist(|| ptrace::registers(tid)).map(|registers| arch::call_number(&registers));
        // Whoever ends alone says so; the others of a process that ends were doing something else.
        by_signal || call != Ok(Some(libc::SYS_exit)) || self.others(tid).is_empty()
    }

    /// Living threads besides this one and those that are at their ends.
    fn others(&self, tid: i32) -> Vec<i32> {
        let process = &self.target.process;
        let is_alive = |other: &i32| {
            *other != tid
                && !self.gone.contains(other)
                && process.thread_state(*other).is_some_and(|state| !matches!(state, 'Z' | 'X'))
        };
        process.threads().unwrap_or_default().into_iter().filter(is_alive).collect()
    }

    /// The kernel has told all others to end, too: they stop there, as this one did.
    fn gather(&self) {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            while let Some((tid, seen)) = look_at_any() {
                match seen {
                    Seen::Event(libc::PTRACE_EVENT_EXIT) => {
                        self.target.ending.borrow_mut().push(tid);
                    }
                    _ => self.let_go(tid, 0),
                }
            }
            let stands = self.target.ending.borrow();
            let is_there = |other: &i32| stands.contains(other);
            if self.others(0).iter().all(is_there) {
                return;
            }
            drop(stands);
            self.target.waiter.sleep(Duration::from_millis(1));
            self.target.waiter.clear();
        }
    }

    /// The process at its end, after [`Event::Ends`].
    ///
    /// # Errors
    /// When it was killed meanwhile.
    pub fn end(&self) -> Result<Stopped<'t>, StopError> {
        let ending = self.target.ending.borrow().clone();
        let mut ending: Vec<i32> = ending;
        ending.sort_unstable();
        ending.dedup();
        Stopped::adopt_all(self.target, &ending)
    }

    /// Forgets a program that is gone, after [`Event::Execs`]: what it became stays where it is,
    /// traced.
    pub fn forget(self) {
        self.target.kept.take();
        self.target.ending.take();
    }

    /// Lets everything go for good: the process runs on untraced, or ends.
    pub fn finish(self) {
        if self.mark.is_some()
            && let Ok(stop) = Stopped::all(self.target)
        {
            // The kernel would leave them set.
            for thread in stop.threads() {
                let _ = ptrace::set_breakpoint(thread.tid, None);
            }
        }
        let ending = self.target.ending.take();
        let kept = self.target.kept.take();
        for &tid in &ending {
            let _ = insist(|| ptrace::detach(tid, 0));
        }
        let left: Vec<i32> = kept.into_iter().filter(|tid| !ending.contains(tid)).collect();
        // A thread can be given back only while it stands.
        for &tid in &left {
            let _ = insist(|| ptrace::interrupt(tid));
        }
        self.target.late.borrow_mut().extend(left);
        // As long as we have not looked at the end of a thread, its process cannot end.
        self.target.late.borrow_mut().extend(self.gone);
        let deadline = Instant::now() + PATIENCE;
        while !self.target.late.borrow().is_empty() && Instant::now() < deadline {
            self.target.release_late();
            self.target.waiter.sleep(Duration::from_millis(1));
            self.target.waiter.clear();
        }
    }

    fn release(&mut self, tid: i32) {
        self.target.ending.borrow_mut().retain(|&other| other != tid);
        self.target.kept.borrow_mut().remove(&tid);
        let _ = insist(|| ptrace::resume(tid, 0));
        self.gone.push(tid);
    }

    fn let_go(&self, tid: i32, signal: i32) {
        // Killed meanwhile is as good.
        let _ = insist(|| ptrace::resume(tid, signal));
    }
}

fn set_options(target: &Target, tid: i32) -> Result<(), Errno> {
    setoptions(Pid::from_raw(tid), target.options | target.kept_options())
}

/// Where the program's C library ends it in order.
fn exit_function(target: &Target) -> Option<RemoteAddr> {
    let auxv = target.process.auxv().ok()?;
    let text = target.process.read("maps").ok()?;
    let maps = maps::parse(&text).ok()?;
    let lists = Rendezvous::find(&target.memory, &auxv, &maps).ok()?;
    let links = lists.modules(&target.memory).ok()?;
    let mut own = links.iter().filter(|link| link.namespace == 0 && !link.is_executable());
    own.find_map(|link| find_symbol(&target.memory, link, b"exit").ok().flatten())
}
