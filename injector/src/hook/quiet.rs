//! Whether a thread stands in certain code, or is on its way back to it: its program counter, and
//! the words of its stack from the pointer up. A signal handler's saved registers lie there too,
//! on whatever stack the handler runs.
//!
//! A stack also keeps words that mean nothing any more. Where that must not be taken for a thread
//! on its way back, [`Evidence`] says what the code in question ever leaves on a stack.

use std::{ops::Range, rc::Rc};

use crate::arch;
use crate::trace::stopped::{Stopped, StoppedThread};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
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
    threads_in(stop, maps, evidence, is_inside).next().map(|(thread, _)| thread.tid)
}

/// Every thread that is in the code or may come back to it, and where that was seen: the place of the
/// lowest word on its stack that leads there, or the end of its stack.
pub fn threads_in<'s>(
    stop: &'s Stopped<'_>,
    maps: &'s [Mapping<'_>],
    evidence: Evidence,
    is_inside: impl Fn(u64) -> bool + 's,
) -> impl Iterator<Item = (&'s StoppedThread, RemoteAddr)> + 's {
    let mut buffer = vec![0; CHUNK + arch::SIGNAL_FRAME_TAIL];
    let is_inside = Rc::new(is_inside);
    let is_led_to = Rc::clone(&is_inside);
    let leads = move |word: u64, after: &[u8]| {
        is_led_to(word) && (evidence == Evidence::AnyWord || arch::is_saved_by_signal(after))
    };
    let mut place = move |thread: &StoppedThread| match is_inside(
        arch::program_counter(&thread.registers).get(),
    ) {
        true => Some(arch::stack_pointer(&thread.registers)),
        false => stack_leads_to(stop, maps, thread, &leads, &mut buffer),
    };
    stop.threads().iter().filter_map(move |thread| Some((thread, place(thread)?)))
}

fn stack_leads_to(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
    leads: &impl Fn(u64, &[u8]) -> bool,
    buffer: &mut [u8],
) -> Option<RemoteAddr> {
    let pointer = arch::stack_pointer(&thread.registers);
    let stack = maps::covering(maps, pointer)?;
    first_word(&stop.target().memory, pointer..stack.range.end, leads, buffer)
}

/// Whether a word of a stack is what is looked for; it is shown with the bytes after it.
pub(crate) fn has_word(
    memory: &Memory,
    stack: Range<RemoteAddr>,
    is_it: impl FnMut(u64, &[u8]) -> bool,
) -> bool {
    first_word(memory, stack, is_it, &mut vec![0; CHUNK + arch::SIGNAL_FRAME_TAIL]).is_some()
}

fn first_word(
    memory: &Memory,
    stack: Range<RemoteAddr>,
    mut is_it: impl FnMut(u64, &[u8]) -> bool,
    buffer: &mut [u8],
) -> Option<RemoteAddr> {
    let mut at = stack.start.get().next_multiple_of(8);
    let end = stack.end.get().min(at.saturating_add(STACK_LIMIT));
    while at < end {
        let length = usize::try_from(end - at).map_or(buffer.len(), |n| n.min(buffer.len()));
        let wanted = &mut buffer[..length];
        let Ok(read) = memory.read_some(RemoteAddr::new(at), wanted) else { break };
        let (words, rest) = buffer[..read.min(CHUNK)].as_chunks::<8>();
        debug_assert!(rest.len() < 8);
        for (index, word) in words.iter().enumerate() {
            let after = &buffer[(index + 1) * 8..read];
            if is_it(u64::from_le_bytes(*word), after) {
                return Some(RemoteAddr::new(at + 8 * index as u64));
            }
        }
        at += CHUNK as u64;
    }
    None
}
