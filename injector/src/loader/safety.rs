//! Whether a program may call its loader just now, on the thread that waits at the entry of an
//! allocation function. Judged with everything stopped:
//!
//! - the loader's lists are not being changed;
//! - no thread is in the loader, or returns to it: one that is holds its locks, and may want one
//!   that the waiting thread holds;
//! - the waiting thread is not in a signal handler, nor in a function of the C library's around threads and
//!   forks, and has stack enough;
//! - where the call starts a thread: the waiting one is as threads are, since the new one inherits that;
//! - no process that only shares the memory runs beside (vfork).
//!
//! What the tables do not tell is taken for the worse: a word on a stack that leads into the loader.

use std::ops::ControlFlow;

use crate::{
    arch,
    loader::{
        functions::Functions,
        walk::{End, Frame, Seen, Stack, Walker},
    },
};
use crate::{
    arch::errand_words::State,
    installation::shared_object::Block,
    trace::stopped::{Stopped, StoppedThread},
};
use heapattach_process::{
    addr::RemoteAddr,
    linker::Rendezvous,
    proc::{
        Process,
        maps::{self, Mapping},
    },
};

/// So much is left below the stack pointer of a thread that shall call the loader.
const STACK_WANTED: u64 = 64 << 10;

/// So much of each stack is looked at. It grows towards its owner's first function, above which
/// lies what is no stack.
const STACK_READ: u64 = 1 << 20;

/// Why not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// It went on, or never waited.
    #[error("the thread that came went on before it was looked at")]
    Gone,
    /// It shares the memory, but is no thread of the process, or has jumped away.
    #[error("the thread that came is not one of the process any more")]
    Stranger,
    /// The lists are being changed.
    #[error("the loader was at work at every look")]
    Inconsistent,
    /// A thread is in the loader.
    #[error("thread {0} was in the loader at every look")]
    InLoader(i32),
    /// In a handler.
    #[error("memory was allocated in signal handlers only")]
    Handler,
    /// Too little room, or a stack that is not the thread's own.
    #[error("no thread that allocated had {} bytes of a stack of its own left", STACK_WANTED)]
    Stack,
    /// In the middle of a fork, or of the start of a thread.
    #[error("thread {0} was starting a thread or forking at every look")]
    Busy(i32),
    /// Its scheduling would be that of a thread it starts.
    #[error("thread {0} has a real-time policy, which a thread that it starts would inherit")]
    RealTime(i32),
    /// A filter of its own.
    #[error("thread {0} is under seccomp")]
    Filtered(i32),
    /// A vfork child runs.
    #[error("a vfork child ran in the same memory at every look")]
    VforkChild,
}

/// Judges.
///
/// # Errors
/// The first thing that speaks against it.
pub fn judge(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    block: &Block<'_>,
    (functions, lists): (&Functions, Rendezvous),
    starts_thread: bool,
) -> Result<(), Unsafe> {
    let memory = &stop.target().memory;
    if block.state() != Some(State::Parked) {
        return Err(Unsafe::Gone);
    }
    if stop.has_vfork_child() {
        return Err(Unsafe::VforkChild);
    }
    if !lists.is_consistent(memory) {
        return Err(Unsafe::Inconsistent);
    }
    let (waits_at, own) = block.waiting().ok_or(Unsafe::Gone)?;
    let is_waiting = |t: &&StoppedThread| arch::stack_pointer(&t.registers) == waits_at;
    let waiting = stop.threads().iter().find(is_waiting).ok_or(Unsafe::Stranger)?;
    has_stack(maps, waits_at, own)?;
    if starts_thread {
        is_plain(&stop.target().process, waiting.tid)?;
    }
    let mut walker = Walker::new(memory, maps);
    for thread in stop.threads() {
        let is_waiting = thread.tid == waiting.tid;
        let frame = if is_waiting { parked(stop, waits_at) } else { Some(interrupted(thread)) };
        let frame = frame.ok_or(Unsafe::Gone)?;
        let Some(stack) = stack(stop, maps, frame.sp) else { continue };
        let view = View { functions, maps, stack: &stack, is_waiting };
        view.judge(&mut walker, frame, thread.tid)?;
    }
    Ok(())
}

/// Whether the thread stands on a stack that is its own, with room: thread control blocks lie above
/// their stacks, with glibc and musl; the first thread's has a name.
fn has_stack(maps: &[Mapping<'_>], at: RemoteAddr, own: RemoteAddr) -> Result<(), Unsafe> {
    let mapping = maps::covering(maps, at).ok_or(Unsafe::Stack)?;
    if mapping.label() == "[stack]" {
        // It grows by itself; the kernel keeps others away from it.
        return Ok(());
    }
    let room = at.offset_from(mapping.range.start).unwrap_or(0);
    let is_own = mapping.range.contains(&own) && at < own;
    if is_own && room >= STACK_WANTED { Ok(()) } else { Err(Unsafe::Stack) }
}

/// Whether a thread that it starts is like any other.
fn is_plain(process: &Process, tid: i32) -> Result<(), Unsafe> {
    const ORDINARY: [i32; 3] = [libc::SCHED_OTHER, libc::SCHED_BATCH, libc::SCHED_IDLE];
    let policy = process.policy_of(tid);
    if !policy.is_some_and(|policy| ORDINARY.map(i32::cast_unsigned).contains(&policy)) {
        return Err(Unsafe::RealTime(tid));
    }
    let status = process.thread_status(tid).map_err(|_| Unsafe::Gone)?;
    if status.seccomp != 0 { Err(Unsafe::Filtered(tid)) } else { Ok(()) }
}

/// Where a stopped thread is.
fn interrupted(thread: &StoppedThread) -> Frame {
    Frame {
        pc: arch::program_counter(&thread.registers).get(),
        sp: arch::stack_pointer(&thread.registers).get(),
        kept: arch::kept(&thread.registers).map(Some),
        is_exact: true,
    }
}

/// Where the waiting thread was called from.
fn parked(stop: &Stopped<'_>, at: RemoteAddr) -> Option<Frame> {
    let memory = &stop.target().memory;
    let entry = at.offset(arch::PARKED.entry);
    let pc = memory.word(entry).ok()?;
    let kept = arch::PARKED.kept.map(|i| memory.word(at.offset(8 * i as u64)).ok());
    Some(Frame { pc, sp: entry.get() + 8, kept, is_exact: false })
}

fn stack(stop: &Stopped<'_>, maps: &[Mapping<'_>], sp: u64) -> Option<Stack> {
    let at = RemoteAddr::new(sp & !7);
    let mapping = maps::covering(maps, at)?;
    let length = mapping.range.end.offset_from(at)?.min(STACK_READ);
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read = stop.target().memory.read_some(at, &mut bytes).ok()?;
    bytes.truncate(read);
    Some(Stack { at, bytes })
}

/// One thread's stack, and what is wanted of it.
struct View<'a> {
    functions: &'a Functions,
    maps: &'a [Mapping<'a>],
    stack: &'a Stack,
    is_waiting: bool,
}

impl View<'_> {
    fn judge(&self, walker: &mut Walker<'_>, frame: Frame, tid: i32) -> Result<(), Unsafe> {
        if self.functions.is_forbidden(frame.pc) {
            return Err(Unsafe::InLoader(tid));
        }
        // Most stacks hold no such word, and need no walk.
        if self.suspect(self.stack.at.get()).is_none() {
            return Ok(());
        }
        let mut found = None;
        let end = walker.walk(self.stack, frame, |seen: Seen| {
            if self.functions.is_forbidden(seen.pc) {
                found = Some(Unsafe::InLoader(tid));
            } else if self.is_waiting && self.functions.is_busy(seen.pc) {
                found = Some(Unsafe::Busy(tid));
            } else if seen.is_signal && self.is_waiting {
                found = Some(Unsafe::Handler);
            }
            found.map_or(ControlFlow::Continue(()), |_| ControlFlow::Break(()))
        });
        let rest = match end {
            End::Bottom => None,
            End::Enough => found,
            End::Unknown(from) => self.suspect(from),
        };
        match rest {
            None => Ok(()),
            Some(Unsafe::InLoader(_)) => Err(Unsafe::InLoader(tid)),
            Some(Unsafe::Busy(_)) => Err(Unsafe::Busy(tid)),
            Some(other) => Err(other),
        }
    }

    /// What a word from `from` up could mean, taken for the worst.
    fn suspect(&self, from: u64) -> Option<Unsafe> {
        let skip = usize::try_from(from.saturating_sub(self.stack.at.get())).ok()?;
        let bytes = self.stack.bytes.get(skip.next_multiple_of(8)..)?;
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().enumerate().find_map(|(index, word)| {
            let word = u64::from_le_bytes(*word);
            if self.functions.is_forbidden(word) {
                return Some(Unsafe::InLoader(0));
            }
            if self.is_waiting && self.functions.is_busy(word) {
                return Some(Unsafe::Busy(0));
            }
            let after = &bytes[(index + 1) * 8..];
            let is_code =
                || maps::covering(self.maps, RemoteAddr::new(word)).is_some_and(|m| m.executable);
            let is_signal = self.is_waiting && arch::is_saved_by_signal(after) && is_code();
            is_signal.then_some(Unsafe::Handler)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &[u8] = b"10000-11000 rw-p 00000000 00:00 0\n\
                         100000-200000 rw-p 00000000 00:00 0\n\
                         7ff000-800000 rw-p 00000000 00:00 0 [stack]\n";

    fn room(at: u64, own: u64) -> Result<(), Unsafe> {
        has_stack(&maps::parse(MAP).unwrap(), RemoteAddr::new(at), RemoteAddr::new(own))
    }

    #[test]
    fn a_stack_must_be_the_threads_own_and_have_room() {
        assert_eq!(room(0x1f_f000, 0x1f_f800), Ok(()));
        assert_eq!(room(0x10_f000, 0x1f_f800), Err(Unsafe::Stack), "too little room");
        assert_eq!(room(0x1f_f000, 0x30_0000), Err(Unsafe::Stack), "somebody else's");
        assert_eq!(room(0x1f_f900, 0x1f_f800), Err(Unsafe::Stack), "above its owner's block");
        assert_eq!(room(0x30_0000, 0x30_1000), Err(Unsafe::Stack), "not mapped");
        assert_eq!(room(0x7f_f100, 0x7000), Ok(()), "the first thread's grows");
    }
}
