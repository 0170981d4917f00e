//! Whether a thread stands in certain code, or is on its way back to it: its program counter, and
//! every word of its stack from the pointer up. A signal handler's saved registers lie there too,
//! on whatever stack the handler runs.

use crate::{
    addr::RemoteAddr,
    arch,
    proc::maps::{self, Mapping},
    stopped::{Stopped, StoppedThread},
};

/// Below the stack pointer a leaf function may keep data without moving it.
const RED_ZONE: u64 = 128;

/// Further up it is not this thread's stack any more, but the heap that a coroutine's lies in.
const STACK_LIMIT: u64 = 16 << 20;

const CHUNK: usize = 64 << 10;

/// The first thread that is in the code, or may come back to it.
pub fn thread_in(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    is_inside: impl Fn(u64) -> bool,
) -> Option<i32> {
    let mut buffer = vec![0; CHUNK];
    let mut is_busy = |thread: &StoppedThread| {
        is_inside(arch::program_counter(&thread.registers).get())
            || stack_leads_to(stop, maps, thread, &is_inside, &mut buffer)
    };
    stop.threads().iter().find(|thread| is_busy(thread)).map(|thread| thread.tid)
}

fn stack_leads_to(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
    is_inside: &impl Fn(u64) -> bool,
    buffer: &mut [u8],
) -> bool {
    let pointer = arch::stack_pointer(&thread.registers);
    let Some(stack) = maps::covering(maps, pointer) else { return false };
    let start = pointer.get().saturating_sub(RED_ZONE).max(stack.range.start.get());
    let mut at = start.next_multiple_of(8);
    let end = stack.range.end.get().min(at.saturating_add(STACK_LIMIT));
    while at < end {
        let length = usize::try_from(end - at).map_or(buffer.len(), |n| n.min(buffer.len()));
        let Ok(read) = stop.target().memory.read_some(RemoteAddr::new(at), &mut buffer[..length])
        else {
            break;
        };
        let (words, _) = buffer[..read].as_chunks::<8>();
        if words.iter().any(|word| is_inside(u64::from_le_bytes(*word))) {
            return true;
        }
        at += length as u64;
    }
    false
}
