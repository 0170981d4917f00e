//! Memory for a frame that means nothing to the program: below the red zone of a thread that is
//! certainly on its own stack; else the zeros with which linkers fill up the last page of code.
//!
//! A stack pointer alone proves nothing: what a coroutine, a goroutine or a handler on an alternate
//! stack runs on is a block like any other, with the program's data next to it.

use std::ops::Range;

use super::left;
use crate::arch;
use crate::trace::stopped::{Stopped, StoppedThread};
use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    proc::maps::{self, Mapping},
};

/// XSAVE areas want it, and so the frame is as long everywhere.
const ALIGNED: u64 = 64;
/// The word that the call returns by, and the one before that, which is only read.
const IN_FRONT: u64 = 16;
const PAGE: u64 = crate::home::PAGE;
/// No thread is given a larger stack.
const LARGEST_STACK: u64 = 1 << 36;
/// How far the C library's record of a thread and its thread-local variables may be from the end of
/// the block.
const RECORD: usize = 4096;
/// Mappings whose last bytes are looked at.
pub(super) const FILES_LIMIT: usize = 64;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// On the thread's own stack.
    OnStack(RemoteAddr),
    /// In the zeros behind code, which the program itself cannot write to.
    BehindCode(RemoteAddr),
}

impl Room {
    /// Its address.
    pub(crate) fn at(self) -> RemoteAddr {
        match self {
            Self::OnStack(at) | Self::BehindCode(at) => at,
        }
    }
}

/// Where a frame of `length` bytes goes while `thread` is borrowed.
pub(crate) fn find(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
    length: u64,
) -> Option<Room> {
    if let Some(at) = below(stop, maps, thread, length) {
        return Some(Room::OnStack(at));
    }
    behind(stop, maps, length)
}

/// The same behind code alone.
pub(super) fn behind(stop: &Stopped<'_>, maps: &[Mapping<'_>], length: u64) -> Option<Room> {
    left::give_back_in(stop, maps);
    behind_code(stop, maps, length).map(Room::BehindCode)
}

/// Whether and where the largest frame finds room on the thread's stack.
pub(crate) fn on_stack_of(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
) -> Option<RemoteAddr> {
    below(stop, maps, thread, arch::RESCUE_FRAME_LIMIT)
}

fn below(
    stop: &Stopped<'_>,
    maps: &[Mapping<'_>],
    thread: &StoppedThread,
    length: u64,
) -> Option<RemoteAddr> {
    let pointer = arch::stack_pointer(&thread.registers);
    let at = place_below(pointer, length)?;
    let lowest = RemoteAddr::new(at.get().checked_sub(IN_FRONT)?);
    let mapping = maps::covering(maps, lowest)?;
    let is_memory = mapping.writable && !mapping.shared && mapping.inode == 0;
    if !is_memory || !mapping.range.contains(&pointer) {
        return None;
    }
    let is_first = mapping.label() == "[stack]";
    (is_first || is_own_block(stop, mapping, thread, lowest)).then_some(at)
}

fn place_below(pointer: RemoteAddr, length: u64) -> Option<RemoteAddr> {
    let at = pointer.get().checked_sub(arch::RED_ZONE)?.checked_sub(length)? & !(ALIGNED - 1);
    Some(RemoteAddr::new(at))
}

/// Whether `lowest` is in the block that the C library has given the thread for its stack, whose
/// record lies at the end of it.
fn is_own_block(
    stop: &Stopped<'_>,
    mapping: &Mapping<'_>,
    thread: &StoppedThread,
    lowest: RemoteAddr,
) -> bool {
    let record = arch::thread_pointer(&thread.registers);
    let pointer = arch::stack_pointer(&thread.registers);
    if !mapping.range.contains(&record) || pointer >= record {
        return false;
    }
    let mut bytes = vec![0; RECORD];
    let read = stop.target().memory.read_some(record, &mut bytes).unwrap_or(0);
    let block = stack_block(&bytes[..read], record);
    block.is_some_and(|block| block.contains(&lowest) && block.contains(&pointer))
}

/// What glibc and musl note of a thread's stack: the block and its size. No offset of any version need
/// be known: nothing else in the record looks like a block that ends with the record itself. The guard
/// at its lower end cannot be written to, and so is no part of the mapping.
///
/// Of a first thread neither notes any. That no other thread has its stack in between would prove
/// nothing: blocks for coroutines come from the same mapping, side by side.
fn stack_block(record: &[u8], at: RemoteAddr) -> Option<Range<RemoteAddr>> {
    let words: Vec<u64> =
        record.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.windows(2).find_map(|two| {
        let &[start, size] = two else { return None };
        let is_block = start != 0 && (start | size).is_multiple_of(PAGE) && size < LARGEST_STACK;
        let end = start.checked_add(size)?;
        let ends_here = (start..end).contains(&at.get()) && end - at.get() <= RECORD as u64 * 16;
        (is_block && ends_here).then(|| RemoteAddr::new(start)..RemoteAddr::new(end))
    })
}

/// Whether a mapping is code of a file, that nothing but its file's bytes are in.
pub(super) fn is_code(mapping: &Mapping<'_>) -> bool {
    mapping.executable && !mapping.writable && !mapping.shared && mapping.inode != 0
}

/// Its last page.
pub(super) fn last_page(memory: &Memory, mapping: &Mapping<'_>) -> Option<(RemoteAddr, Vec<u8>)> {
    let at = RemoteAddr::new(mapping.range.end.get().checked_sub(PAGE)?);
    Some((at, memory.read_vec(at, usize::try_from(PAGE).ok()?).ok()?))
}

/// The end of a file's code, if it is nothing but zeros there.
fn behind_code(stop: &Stopped<'_>, maps: &[Mapping<'_>], length: u64) -> Option<RemoteAddr> {
    maps.iter().filter(|mapping| is_code(mapping)).take(FILES_LIMIT).find_map(|mapping| {
        let (_, last) = last_page(&stop.target().memory, mapping)?;
        let zeros = last.iter().rev().take_while(|&&byte| byte == 0).count() as u64;
        place_in_zeros(mapping.range.end, zeros, length)
    })
}

fn place_in_zeros(end: RemoteAddr, zeros: u64, length: u64) -> Option<RemoteAddr> {
    let at = end.get().checked_sub(length)? & !(ALIGNED - 1);
    let needed = end.get() - at.checked_sub(IN_FRONT)?;
    // The last instruction may end in zeros of its own.
    const INSTRUCTION: u64 = 16;
    (needed + INSTRUCTION <= zeros).then_some(RemoteAddr::new(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_frame_stays_below_the_red_zone() {
        let at = place_below(RemoteAddr::new(0x3fff8), 3000).unwrap().get();
        assert!(at + 3000 + arch::RED_ZONE <= 0x3fff8 && at.is_multiple_of(ALIGNED));
        assert_eq!(place_below(RemoteAddr::new(100), 3000), None);
    }

    #[test]
    fn the_block_of_a_stack_is_told_by_its_ending_with_the_record() {
        let at = RemoteAddr::new(0x7f00_0080_0000 - 0x900);
        let words = [1, 0x7f00_0000_0000, 0x80_0000, 0x1000, 7];
        let block = stack_block(&record(&words), at).unwrap();
        assert_eq!(block.start.get(), 0x7f00_0000_0000);
        assert_eq!(block.end.get(), 0x7f00_0080_0000);
        // A block elsewhere, one that ends far behind, and an end beyond the address space.
        for words in [[0x6f00_0000_0000, 0x80_0000, 0], [0x7f00_0000_0000, 0x8000_0000, 0]] {
            assert_eq!(stack_block(&record(&words), at), None);
        }
        assert_eq!(stack_block(&record(&[!0xfff, 0x80_0000, 0]), at), None);
    }

    #[test]
    fn zeros_behind_code_must_hold_all_of_it() {
        let end = RemoteAddr::new(0x5000);
        let at = place_in_zeros(end, 4000, 3000).unwrap().get();
        assert!(at + 3000 <= 0x5000 && at - IN_FRONT >= 0x5000 - 4000);
        assert_eq!(place_in_zeros(end, 3000, 3000), None);
    }
}
