//! A clone of the target that never runs: it keeps the memory of one moment while the target goes
//! on. Nothing of it is ever seen by the program: its end sends no signal, and is taken in by a
//! call made in the target.
//!
//! The clone is ours before its first instruction. Should this process die before that is certain,
//! what the clone finds behind its system call ends it; afterwards the kernel does.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::{
        ptrace::Options,
        signal::{Signal, kill},
    },
    unistd::Pid,
};

use crate::{arch, home::Home};
use crate::{
    installation::remote_call::{Carrier, CarrierError},
    trace::{
        insist::insist,
        seen::Seen,
        stopped::{StopError, Stopped, choose_carrier},
        target::Target,
        tracer::Tracer,
    },
};
use heapattach_process::{
    addr::RemoteAddr,
    proc::{Process, maps},
};

/// How long a clone may take to be there, and to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why there is no clone, or something is left of it.
#[derive(Debug, thiserror::Error)]
pub enum CloneError {
    /// There is no code of ours in the target to make it with.
    #[error("no place in the target to make the call at")]
    NoPlace(#[source] Errno),
    /// No thread can be borrowed.
    #[error("no thread of the target could be borrowed")]
    NoCarrier,
    /// The call failed.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The target cannot be stopped again.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// A request failed.
    #[error("the clone could not be taken over")]
    Request(#[source] Errno),
    /// It was made and cannot be found.
    #[error("the clone of process {pid} did not appear within {0:?}", PATIENCE)]
    Lost {
        /// The target.
        pid: i32,
    },
}

/// The clone.
#[derive(Debug)]
pub struct Clone<'t> {
    target: &'t Target,
    pid: i32,
    /// Its number where the target lives.
    inner: u64,
    /// A `syscall` instruction in the target.
    gadget: RemoteAddr,
    home: Home,
    is_gone: bool,
}

impl<'t> Clone<'t> {
    /// Clones a stopped target.
    pub fn make(stop: &Stopped<'t>, home: Option<&Home>) -> Result<Self, CloneError> {
        let target = stop.target();
        let home = home.ok_or(CloneError::NoPlace(Errno::ENOENT))?;
        let gadget = crate::home::vdso::syscall_gadget(target).map_err(CloneError::NoPlace)?;
        let place = home.clone_gadget();
        let code = arch::CLONING_CALL;
        insist(|| target.memory.write(place, &code)).map_err(CloneError::NoPlace)?;
        let thread = choose_carrier(stop).ok_or(CloneError::NoCarrier)?;
        let tid = thread.tid;
        let mut carrier = Carrier::borrow(stop, thread, gadget)?;
        let frame = carrier.rescue_frame(home.frame())?;
        insist(|| target.memory.write(home.frame(), &frame)).map_err(CloneError::NoPlace)?;
        carrier.rescue(place, home)?;
        let options = target.options | target.kept_options();
        set_options(target.tracer(), tid, options | Options::PTRACE_O_TRACECLONE)?;
        let before = children(&target.process, tid);
        let made = carrier.call("clone", libc::SYS_clone, [0; 6]);
        let clone = made.map_err(CloneError::from).and_then(|inner| {
            let pid = find(target, tid, inner, &before)?;
            let clone = Self { target, pid, inner, gadget, home: home.clone(), is_gone: false };
            clone.take_over()?;
            Ok(clone)
        });
        let reset = set_options(target.tracer(), tid, options);
        carrier.finish()?;
        let clone = clone?;
        reset?;
        Ok(clone)
    }

    /// Waits until it stands, and has it end with us.
    fn take_over(&self) -> Result<(), CloneError> {
        let deadline = Instant::now() + PATIENCE;
        while self.target.waiter.wait(self.pid, deadline) != Seen::Interrupted {
            if Instant::now() >= deadline {
                return Err(CloneError::Lost { pid: self.target.process.pid() });
            }
        }
        set_options(self.target.tracer(), self.pid, Options::PTRACE_O_EXITKILL)
    }

    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it has of the target's memory.
    pub fn mappings(&self) -> Vec<Range<u64>> {
        let text = Process::open(self.pid).and_then(|p| p.read("maps")).unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let mut all: Vec<Range<u64>> = Vec::new();
        for mapping in maps {
            let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
            match all.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => all.push(start..end),
            }
        }
        all
    }

    /// Ends it, and has the target take in its end; answers how long the target was stopped.
    pub fn finish(mut self) -> Result<Duration, CloneError> {
        self.end();
        let stop = match Stopped::all(self.target) {
            Ok(stop) => stop,
            // The process that inherits its children takes them in.
            Err(StopError::Gone) => return Ok(Duration::ZERO),
            Err(error) => return Err(error.into()),
        };
        let result = match self.take_in(&stop) {
            Err(CloneError::NoCarrier) if self.target.threads.has_kept() => Ok(()),
            result => result,
        };
        let cost = stop.finish();
        result.map(|()| cost.stopped)
    }

    /// Ends it while the target is stopped, and has its end taken in.
    pub fn discard(mut self, stop: &Stopped<'t>) -> Result<(), CloneError> {
        self.end();
        self.take_in(stop)
    }

    /// Ends it, and leaves what the process table says of it.
    pub fn abandon(mut self) {
        self.end();
    }

    /// Has the target take in its end, while it is stopped.
    fn take_in(&self, stop: &Stopped<'_>) -> Result<(), CloneError> {
        let thread = choose_carrier(stop).ok_or(CloneError::NoCarrier)?;
        let mut carrier = Carrier::borrow(stop, thread, self.gadget)?;
        let frame = carrier.rescue_frame(self.home.frame())?;
        insist(|| self.target.memory.write(self.home.frame(), &frame))
            .map_err(CloneError::NoPlace)?;
        carrier.rescue(self.home.gadget(), &self.home)?;
        let flags = u64::try_from(libc::__WALL | libc::WNOHANG).unwrap_or(0);
        let call = carrier.call("wait4", libc::SYS_wait4, [self.inner, 0, flags, 0, 0, 0]);
        carrier.finish()?;
        match call {
            // Another thread has waited for all children.
            Ok(_) | Err(CarrierError::Refused { source: Errno::ECHILD, .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        // Its parent can take its end in only after we have. An end that comes between looking and taking in
        // is met in the next turn.
        let deadline = Instant::now() + PATIENCE;
        let tracer = self.target.tracer();
        let is_there = || {
            let has_ended = tracer.look(self.pid) == Seen::Ended;
            tracer.reap(self.pid).is_none() && !has_ended
        };
        while is_there() && Instant::now() < deadline {
            self.target.waiter.sleep(Duration::from_millis(1));
            self.target.waiter.clear();
        }
    }
}

impl Drop for Clone<'_> {
    fn drop(&mut self) {
        if !self.is_gone {
            self.end();
            if let Ok(stop) = Stopped::all(self.target) {
                let _ = self.take_in(&stop);
            }
        }
    }
}

fn set_options(tracer: &Tracer, tid: i32, options: Options) -> Result<(), CloneError> {
    tracer.set_options(tid, options).map_err(CloneError::Request)
}

/// The clone's number here. The target may count otherwise.
fn find(target: &Target, tid: i32, inner: u64, before: &[i32]) -> Result<i32, CloneError> {
    let own = std::process::id().cast_signed();
    let is_ours = |&pid: &i32| {
        Process::open(pid).and_then(|p| p.status()).is_ok_and(|status| status.tracer == own)
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let fresh = children(&target.process, tid).into_iter().filter(|pid| !before.contains(pid));
        let same = i32::try_from(inner).ok();
        if let Some(pid) = fresh.chain(same).find(is_ours) {
            return Ok(pid);
        }
        if Instant::now() >= deadline {
            return Err(CloneError::Lost { pid: target.process.pid() });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn children(process: &Process, tid: i32) -> Vec<i32> {
    let text = process.read_thread(tid, "children").unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
