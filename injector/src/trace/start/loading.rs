//! A dynamic loader at work, followed from system call to system call: nothing is changed in the
//! program, so it does not matter whether we live to see the end.

use std::time::Instant;

use crate::arch::{self, LoaderCall};
use crate::trace::{
    insist::insist,
    seen::Seen,
    start::{PATIENCE, StartError},
    target::Target,
};
use heapattach_process::{linker::Rendezvous, proc::maps, told_loader};

/// The last thing that glibc's loader does is to unmap this, if it needed it.
const CACHE: &[u8] = b"/ld.so.cache";

/// No path is longer.
const PATH_LIMIT: usize = 4096;

/// No loader is longer.
const LOADER: u64 = 2 << 20;

/// How far the loader has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is relocated, no constructor has run.
    Loaded,
    /// It is about to relocate, and makes no call when it is done.
    Relocates,
}

/// Follows the program, stopped at its exec, until its loader is done, or about to relocate.
///
/// # Errors
/// When the program ends before.
pub(crate) fn follow(target: &Target) -> Result<Progress, StartError> {
    let pid = target.process.pid();
    let deadline = Instant::now() + PATIENCE;
    // The exec is the first call to end.
    let (mut has_cache, mut is_inside, mut signal) = (false, true, 0);
    let loader = told_loader::auxv(&target.process).ok().and_then(|auxv| auxv.interpreter);
    loop {
        let deliver = std::mem::take(&mut signal);
        insist(|| target.tracer().resume_to_syscall(pid, deliver)).map_err(StartError::Request)?;
        match target.waiter.wait(pid, deadline) {
            Seen::Call if !is_inside => {
                is_inside = true;
                continue;
            }
            Seen::Call => is_inside = false,
            Seen::Ended => return Err(StartError::Ended),
            Seen::Nothing => return Err(StartError::Late(PATIENCE)),
            Seen::Signal(number) => {
                signal = number;
                continue;
            }
            Seen::Interrupted | Seen::Event(_) => continue,
        }
        let registers = insist(|| target.tracer().registers(pid)).map_err(StartError::Request)?;
        // It would be strange, and late, but no reason to follow it for ever.
        let pc = arch::program_counter(&registers);
        if loader.is_some_and(|at| pc.offset_from(at).is_none_or(|offset| offset > LOADER)) {
            return Ok(Progress::Loaded);
        }
        match arch::loader_call(&registers) {
            LoaderCall::Opened(name) => {
                let name = target.memory.string(name, PATH_LIMIT);
                has_cache |= name.is_ok_and(|name| name.ends_with(CACHE));
            }
            LoaderCall::ThreadPointer if !has_cache => return Ok(Progress::Relocates),
            LoaderCall::Unmapped if is_done(target) => return Ok(Progress::Loaded),
            _ => {}
        }
    }
}

/// Whether everything the program begins with is loaded and relocated.
pub(crate) fn is_done(target: &Target) -> bool {
    let lists = || {
        let auxv = told_loader::auxv(&target.process).ok()?;
        let text = target.process.read("maps").ok()?;
        let maps = maps::parse(&text).ok()?;
        let lists = Rendezvous::find(&target.memory, &auxv, &maps).ok()?;
        Some(lists.is_consistent(&target.memory) && lists.modules(&target.memory).is_ok())
    };
    lists().unwrap_or(false)
}
