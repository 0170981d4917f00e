//! The start of a program, up to the point where everything is loaded and relocated and no
//! constructor has run: there the session begins. Static programs wait at their entry point.
//!
//! A loader that unmaps its cache of libraries is then done with everything else: it is followed
//! from system call to system call up to there, which changes nothing and survives our death. For
//! others, a short way before the end, a two-byte jump to itself is put where they will come by:
//! no trap, so a program that inherited a blocked or ignored SIGTRAP keeps it so.

mod loading;
pub(crate) mod thread_pointer;

use std::time::{Duration, Instant};

use nix::{errno::Errno, sys::ptrace::Options};

use crate::trace::{
    insist::insist,
    seen::Seen,
    start::loading::Progress,
    stopped::{StopError, Stopped},
    target::Target,
    tracer::Tracer,
    wait::Waiter,
};
use crate::{
    arch::{self, SELF_JUMP},
    module::find_symbol,
};
use heapattach_process::{
    addr::RemoteAddr, linker::interpreter, memory::Memory, proc::Process, told_loader,
};

/// How often the program is looked at while it loads.
const LOOK: Duration = Duration::from_micros(250);

/// A loader that takes longer is hooked when it is done, by an ordinary attach.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Why a program did not come to its start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It ended before.
    #[error("the program ended before its first instruction")]
    Ended,
    /// A request failed.
    #[error("the program could not be brought to its start")]
    Request(#[source] Errno),
    /// It could not be held there.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// It does not come.
    #[error("the program did not come to its start within {0:?}")]
    Late(Duration),
}

/// Traces a child that has not execed yet; it must be waiting for a sign from us.
///
/// # Errors
/// What ptrace says.
pub fn seize(pid: i32) -> Result<(), StartError> {
    let options = Options::PTRACE_O_TRACEEXEC | Options::PTRACE_O_TRACESYSGOOD;
    insist(|| Tracer::Own.seize(pid, options)).map_err(StartError::Request)
}

/// Waits until the child has become the program; signals it gets meanwhile reach it.
///
/// # Errors
/// [`StartError::Ended`] if it could not exec.
pub fn wait_for_exec(pid: i32, waiter: &Waiter) -> Result<(), StartError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match waiter.wait(pid, deadline) {
            Seen::Event(libc::PTRACE_EVENT_EXEC) => return Ok(()),
            Seen::Signal(signal) => {
                waiter.tracer().resume(pid, signal).map_err(StartError::Request)?
            }
            Seen::Ended => return Err(StartError::Ended),
            Seen::Nothing => return Err(StartError::Late(PATIENCE)),
            Seen::Interrupted | Seen::Call | Seen::Event(_) => {
                waiter.tracer().resume(pid, 0).map_err(StartError::Request)?;
            }
        }
    }
}

/// Lets the program, stopped at its exec, load what it needs, and holds it there.
///
/// # Errors
/// When it ends before, or never gets there.
pub fn hold_at_start(target: &Target) -> Result<Stopped<'_>, StartError> {
    let auxv = told_loader::auxv(&target.process).unwrap_or_default();
    if auxv.interpreter.is_none() {
        // Without a loader it is at its first instruction already.
        thread_pointer::run_to_it(target)?;
        return Ok(Stopped::adopt(target, target.process.pid())?);
    }
    if loading::follow(target)? == Progress::Loaded {
        return stop_here(target);
    }
    let place = Place::find(target).ok_or(StartError::Request(Errno::ENOEXEC))?;
    let mark = Mark::set(&target.memory, place.at).map_err(StartError::Request)?;
    let result = run_to(target, &place);
    mark.remove(&target.memory).map_err(StartError::Request)?;
    result?;
    Ok(Stopped::adopt(target, target.process.pid())?)
}

/// Ends the system call it is in, before anything else runs.
fn stop_here(target: &Target) -> Result<Stopped<'_>, StartError> {
    let pid = target.process.pid();
    let deadline = Instant::now() + PATIENCE;
    target.tracer().interrupt_next(pid, 0).map_err(StartError::Request)?;
    loop {
        match target.waiter.wait(pid, deadline) {
            Seen::Interrupted => return Ok(Stopped::adopt(target, pid)?),
            Seen::Signal(signal) => {
                target.tracer().interrupt_next(pid, signal).map_err(StartError::Request)?
            }
            Seen::Call | Seen::Event(_) => {
                target.tracer().interrupt_next(pid, 0).map_err(StartError::Request)?
            }
            Seen::Ended => return Err(StartError::Ended),
            Seen::Nothing => return Err(StartError::Late(PATIENCE)),
        }
    }
}

/// Where to wait.
struct Place {
    at: RemoteAddr,
    /// The loader calls it more than once; only when it has relocated everything do we stop.
    is_loaders: bool,
}

impl Place {
    fn find(target: &Target) -> Option<Self> {
        let auxv = told_loader::auxv(&target.process).ok()?;
        let loaders = auxv.interpreter.and_then(|base| {
            let loader = interpreter(&target.memory, base)?;
            find_symbol(&target.memory, &loader, b"_dl_debug_state").ok()?
        });
        match loaders {
            Some(at) => Some(Self { at, is_loaders: true }),
            None => auxv.entry.map(|at| Self { at, is_loaders: false }),
        }
    }

    fn is_reached(&self, target: &Target) -> bool {
        !self.is_loaders || loading::is_done(target)
    }
}

fn run_to(target: &Target, place: &Place) -> Result<(), StartError> {
    let pid = target.process.pid();
    let deadline = Instant::now() + PATIENCE;
    insist(|| target.tracer().resume(pid, 0)).map_err(StartError::Request)?;
    while Instant::now() < deadline {
        match target.waiter.wait(pid, Instant::now() + LOOK) {
            Seen::Nothing => {
                insist(|| target.tracer().interrupt(pid)).map_err(StartError::Request)?
            }
            Seen::Ended => return Err(StartError::Ended),
            Seen::Signal(signal) => {
                insist(|| target.tracer().resume(pid, signal)).map_err(StartError::Request)?;
            }
            Seen::Interrupted => {
                let registers =
                    insist(|| target.tracer().registers(pid)).map_err(StartError::Request)?;
                if arch::program_counter(&registers) == place.at {
                    if place.is_reached(target) {
                        return Ok(());
                    }
                    leave_function(target, pid, &registers)?;
                }
                insist(|| target.tracer().resume(pid, 0)).map_err(StartError::Request)?;
            }
            Seen::Call | Seen::Event(_) => {
                insist(|| target.tracer().resume(pid, 0)).map_err(StartError::Request)?;
            }
        }
    }
    Err(StartError::Late(PATIENCE))
}

/// The loader's function does nothing but return; so that is what we do for it.
fn leave_function(
    target: &Target,
    pid: i32,
    registers: &arch::Registers,
) -> Result<(), StartError> {
    let back = target.memory.word(arch::stack_pointer(registers)).map_err(StartError::Request)?;
    let after = arch::returned_to(registers, RemoteAddr::new(back));
    insist(|| target.tracer().set_registers(pid, &after)).map_err(StartError::Request)
}

/// The self-jump, and what was there.
struct Mark {
    at: RemoteAddr,
    old: [u8; 2],
}

impl Mark {
    fn set(memory: &Memory, at: RemoteAddr) -> Result<Self, Errno> {
        let mut old = [0; 2];
        memory.read(at, &mut old)?;
        insist(|| memory.write(at, &SELF_JUMP))?;
        Ok(Self { at, old })
    }

    fn remove(self, memory: &Memory) -> Result<(), Errno> {
        match insist(|| memory.write(self.at, &self.old)) {
            // The program is gone, and the mark with it.
            Err(Errno::ESRCH | Errno::EIO) => Ok(()),
            other => other,
        }
    }
}

/// The process of a child that has execed.
///
/// # Errors
/// When it ended.
pub fn open_started(pid: i32) -> Result<Target, StartError> {
    let process = Process::open(pid).map_err(|_| StartError::Ended)?;
    Target::open(process, Tracer::Own).map_err(StartError::Request)
}
