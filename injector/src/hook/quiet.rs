//! Whether a thread stands in certain code, or is on its way back to it: its program counter, and
//! the words of its stack from the pointer up. A signal handler's saved registers lie there too,
//! on whatever stack the handler runs.
//!
//! A stack also keeps words that mean nothing any more. Where that must not be taken for a thread
//! on its way back, [`Evidence`] says what the code in question ever leaves on a stack.

use std::{io::IoSliceMut, ops::Range, rc::Rc};

use nix::{
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

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

/// Stacks that are read by one call, each if no more than so much of it is used: as nearly all are.
const AT_ONCE: usize = 64;
const SHALLOW: usize = 8 << 10;

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
    let is_inside = Rc::new(is_inside);
    let is_led_to = Rc::clone(&is_inside);
    let leads = move |word: u64, after: &[u8]| {
        is_led_to(word) && (evidence == Evidence::AnyWord || arch::is_saved_by_signal(after))
    };
    let place = move |thread: &StoppedThread, stack: &Stack<'_>| match is_inside(
        arch::program_counter(&thread.registers).get(),
    ) {
        true => Some(arch::stack_pointer(&thread.registers)),
        false => stack.leads_to(&stop.target().memory, &leads),
    };
    let mut buffer = vec![0; AT_ONCE * SHALLOW];
    stop.threads().chunks(AT_ONCE).flat_map(move |threads| {
        let stacks = stacks_of(stop, maps, threads, &mut buffer);
        let found = threads.iter().zip(&stacks);
        found
            .filter_map(|(thread, stack)| Some((thread, place(thread, stack)?)))
            .collect::<Vec<_>>()
    })
}

/// What of a stack is used.
struct Stack<'b> {
    range: Range<RemoteAddr>,
    /// Its bytes, if they are read already.
    bytes: Option<&'b [u8]>,
}

/// The stacks of some threads, the shallow ones of them read.
fn stacks_of<'b>(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    threads: &[StoppedThread],
    buffer: &'b mut [u8],
) -> Vec<Stack<'b>> {
    let range = |thread: &StoppedThread| {
        let pointer = arch::stack_pointer(&thread.registers);
        let end = maps::covering(maps, pointer).map_or(pointer, |stack| stack.range.end);
        RemoteAddr::new(pointer.get().next_multiple_of(8).min(end.get()))..end
    };
    let ranges: Vec<_> = threads.iter().map(range).collect();
    let number = |word: u64| usize::try_from(word).unwrap_or(usize::MAX);
    let length = |range: &Range<RemoteAddr>| number(range.end.get() - range.start.get());
    let lengths: Vec<_> = ranges.iter().map(length).collect();
    let shallow = ranges.iter().zip(&lengths).filter(|&(_, &length)| is_shallow(length));
    let remote: Vec<_> =
        shallow.map(|(range, &len)| RemoteIoVec { base: number(range.start.get()), len }).collect();
    let pid = Pid::from_raw(stop.target().process.voice());
    // Where this may not be called, each is read by its own.
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], &remote).unwrap_or(0);
    let parts = divide(&buffer[..read], &lengths);
    ranges.into_iter().zip(parts).map(|(range, bytes)| Stack { range, bytes }).collect()
}

fn is_shallow(length: usize) -> bool {
    (1..=SHALLOW).contains(&length)
}

/// The bytes of each shallow stack, of which one after the other was read: none of one that was read in part,
/// nor of those behind it.
fn divide<'b>(mut read: &'b [u8], lengths: &[usize]) -> Vec<Option<&'b [u8]>> {
    let part = |&length: &usize| {
        let bytes = is_shallow(length).then(|| read.split_off(..length));
        if bytes == Some(None) {
            read = &[];
        }
        bytes.flatten()
    };
    lengths.iter().map(part).collect()
}

impl Stack<'_> {
    fn leads_to(&self, memory: &Memory, leads: &impl Fn(u64, &[u8]) -> bool) -> Option<RemoteAddr> {
        let Some(bytes) = self.bytes else {
            let buffer = &mut vec![0; CHUNK + arch::SIGNAL_FRAME_TAIL];
            return first_word(memory, self.range.clone(), leads, buffer);
        };
        Some(self.range.start.offset(first_in(bytes, bytes.len(), &mut &*leads)? as u64))
    }
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
        if let Some(offset) = first_in(&buffer[..read], CHUNK, &mut is_it) {
            return Some(RemoteAddr::new(at + offset as u64));
        }
        at += CHUNK as u64;
    }
    None
}

/// Where in these bytes, of the words that begin before `limit`, the first is.
fn first_in(
    bytes: &[u8],
    limit: usize,
    is_it: &mut impl FnMut(u64, &[u8]) -> bool,
) -> Option<usize> {
    let (words, _) = bytes[..bytes.len().min(limit)].as_chunks::<8>();
    let mut words = words.iter().enumerate();
    let found =
        words.find(|(index, word)| is_it(u64::from_le_bytes(**word), &bytes[(index + 1) * 8..]));
    found.map(|(index, _)| 8 * index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_was_read_in_part_and_those_behind_it_are_not_taken_for_read() {
        let read: Vec<u8> = (0..100).collect();
        let deep = SHALLOW + 1;
        let parts = divide(&read, &[8, 0, 40, deep, 60, 16, 8]);
        let first = |part: &Option<&[u8]>| part.map(|bytes| (bytes[0], bytes.len()));
        let parts: Vec<_> = parts.iter().map(first).collect();
        assert_eq!(parts, [Some((0, 8)), None, Some((8, 40)), None, None, None, None]);
        assert_eq!(divide(&read[..48], &[8, 40]).iter().flatten().count(), 2);
        assert_eq!(divide(&[], &[8, 40]), [None, None]);
    }

    #[test]
    fn the_first_word_is_found_with_what_follows_it() {
        let bytes: Vec<u8> = (0..4_u64).flat_map(u64::to_le_bytes).collect();
        let is_two = |word, after: &[u8]| word == 2 && after.len() == 8;
        assert_eq!(first_in(&bytes, bytes.len(), &mut { is_two }), Some(16));
        assert_eq!(first_in(&bytes, 16, &mut { is_two }), None);
    }
}
