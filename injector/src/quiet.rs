//! Whether a thread stands in certain code, or is on its way back to it: its program counter, and
//! the words of its stack from the pointer up. A signal handler's saved registers lie there too,
//! on whatever stack the handler runs.
//!
//! A stack also keeps words that mean nothing any more. Where that must not be taken for a thread
//! on its way back, [`Evidence`] says what the code in question ever leaves on a stack.

use crate::{
    addr::RemoteAddr,
    arch,
    proc::maps::{self, Mapping},
    stopped::{Stopped, StoppedThread},
};

/// Further up it is not this thread's stack any more, but the heap that a coroutine's lies in.
const STACK_LIMIT: u64 = 16 << 20;

const CHUNK: usize = 64 << 10;

/// Which words of a stack lead to the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Any word that points there.
    AnyWord,
    /// Only a program counter saved by a signal: nothing is being called, so that no return address
    /// means anything.
    SavedBySignal,
}

/// The first thread that is in the code, or may come back to it.
pub fn thread_in(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    evidence: Evidence,
    is_inside: impl Fn(u64) -> bool,
) -> Option<i32> {
    let mut buffer = vec![0; CHUNK + arch::SIGNAL_FRAME_TAIL];
    let leads = |word: u64, after: &[u8]| {
        is_inside(word) && (evidence == Evidence::AnyWord || arch::is_saved_by_signal(after))
    };
    let mut is_busy = |thread: &StoppedThread| {
        is_inside(arch::program_counter(&thread.registers).get())
            || stack_leads_to(stop, maps, thread, &leads, &mut buffer)
    };
    stop.threads().iter().find(|thread| is_busy(thread)).map(|thread| thread.tid)
}

fn stack_leads_to(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
    leads: &impl Fn(u64, &[u8]) -> bool,
    buffer: &mut [u8],
) -> bool {
    let pointer = arch::stack_pointer(&thread.registers);
    let Some(stack) = maps::covering(maps, pointer) else { return false };
    let mut at = pointer.get().next_multiple_of(8);
    let end = stack.range.end.get().min(at.saturating_add(STACK_LIMIT));
    while at < end {
        let length = usize::try_from(end - at).map_or(buffer.len(), |n| n.min(buffer.len()));
        let wanted = &mut buffer[..length];
        let Ok(read) = stop.target().memory.read_some(RemoteAddr::new(at), wanted) else { break };
        let (words, rest) = buffer[..read.min(CHUNK)].as_chunks::<8>();
        debug_assert!(rest.len() < 8);
        for (index, word) in words.iter().enumerate() {
            let after = &buffer[(index + 1) * 8..read];
            if leads(u64::from_le_bytes(*word), after) {
                return true;
            }
        }
        at += CHUNK as u64;
    }
    false
}
