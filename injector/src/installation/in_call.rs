//! A thread that stands in a call of a hooked function: in our code, or in the allocator that our code
//! has called. What such a call has in its hands is in no record yet, or in none any more.

use heapattach_abi::frame;

use crate::arch;
use crate::trace::stopped::{Stopped, StoppedThread};
use heapattach_process::addr::RemoteAddr;

/// So much of a stack lies below the place where our code was seen, at most: the allocator's frames.
const BELOW: u64 = 64 << 10;
/// And so much of it above, at most: ours.
const ABOVE: u64 = 4 << 10;

/// The call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InCall {
    /// The thread.
    pub tid: i32,
    /// Every word that the allocator or our code has at hand.
    pub words: Vec<u64>,
    /// Blocks that it exchanges for others, or may: what is in them can lie at either place.
    pub exchanged: Vec<u64>,
}

impl InCall {
    /// Of a thread on whose stack our code was seen at this place.
    pub(crate) fn of(stop: &Stopped<'_>, thread: &StoppedThread, place: RemoteAddr) -> Self {
        let stack = arch::stack_pointer(&thread.registers).get();
        let start = stack.saturating_sub(arch::RED_ZONE).next_multiple_of(8);
        let end = place.get().min(start.saturating_add(BELOW)).saturating_add(ABOVE);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        let memory = &stop.target().memory;
        let read = memory.read_some(RemoteAddr::new(start), &mut bytes).unwrap_or(0);
        let (words, _) = bytes[..read].as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let exchanged = exchanged(&words);
        let words = words.into_iter().chain(arch::words(&thread.registers)).collect();
        Self { tid: thread.tid, words, exchanged }
    }
}

/// The blocks that calls exchange whose frames are among these words. A frame that was left there by an
/// earlier call says nothing that is wrong enough to matter: its block is live again, or free.
fn exchanged(words: &[u64]) -> Vec<u64> {
    let at =
        |index: usize, offset: usize| words.get((index + offset / 8).checked_sub(frame::CALL / 8)?);
    let frames = (0..words.len()).filter(|&index| frame::exchanges(words[index]));
    let blocks =
        frames.flat_map(|index| [at(index, arch::FRAME_FIRST_ARGUMENT), at(index, frame::BLOCK)]);
    let mut blocks: Vec<u64> = blocks.flatten().copied().filter(|&block| block != 0).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

#[cfg(test)]
mod tests {
    use heapattach_abi::kind::HookKind;

    use super::*;

    #[test]
    fn the_block_that_is_exchanged_is_read_from_the_frame_of_the_call() {
        let call = |kind: HookKind| kind.first_hook() as u64 | (kind as u64) << 8;
        let frame = |call: u64| {
            let mut words = vec![7; 30];
            words[4 + arch::FRAME_FIRST_ARGUMENT / 8] = 0x5000;
            words[4 + frame::CALL / 8] = call;
            words[4 + frame::BLOCK / 8] = 0x6000;
            words
        };
        assert_eq!(exchanged(&frame(call(HookKind::Realloc))), [0x5000, 0x6000]);
        assert_eq!(exchanged(&frame(call(HookKind::Realloc) | 1 << 32)), [0x5000, 0x6000]);
        assert_eq!(exchanged(&frame(call(HookKind::Malloc))), []);
        assert_eq!(exchanged(&frame(call(HookKind::Realloc) | 1 << 20)), []);
        // One that is cut off.
        let cut = [call(HookKind::Realloc), 1];
        assert_eq!(exchanged(&cut), []);
    }
}
