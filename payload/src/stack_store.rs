//! Where stacks are kept, once each: a record names its own by a number.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use heapattach_abi::{control, region, stacks};

use crate::{cells::Cells, shared_word::Place};

/// Looks for a script in a stack after which there is none.
const IN_VAIN: u64 = 2;

/// The number of the stack with this hash; it is to be stored if it is new.
#[inline(always)]
pub(crate) fn number(region: Place, hash: u64, store: impl FnOnce(Place, Place)) -> u32 {
    for attempt in 0..2 * stacks::PROBES {
        let index = stacks::entry(hash, attempt);
        let entry = region.at(region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES);
        let number = index as u32 + 1;
        // Nearly always it is there: looking first is much cheaper than exchanging.
        let known = entry.word().load(Acquire);
        let exchanged = if known == 0 {
            entry.word().compare_exchange(0, hash, AcqRel, Acquire)
        } else {
            Err(known)
        };
        match exchanged {
            // One that another thread is still storing is stored once more: the reader of a record shall
            // find its stack whole, and who stores it may be a thread that this one interrupted.
            Err(known) if known == hash && entry.at(8).word().load(Acquire) != 0 => return number,
            Err(_) => {}
            Ok(_) => {
                store(region, entry);
                return number;
            }
        }
    }
    region.at(region::STACKS_LOST).word().fetch_add(1, Relaxed);
    0
}

/// Whether no script ran in a stack, as often as that counts.
#[inline(never)]
pub(crate) fn has_no_script(region: Place, number: u32) -> bool {
    stacks::looks_in_vain(described(region, number).load(Relaxed)) >= IN_VAIN
}

/// Notes that no script ran in a stack. It is the same code each time: another time there will be none either, if the
/// stack is whole. Where it is cut, one may have run in what is not told.
#[cold]
#[inline(never)]
pub(crate) fn note_no_script(region: Place, number: u32) {
    if is_whole(region, number) && !has_no_script(region, number) {
        described(region, number).fetch_add(stacks::ONE_IN_VAIN, Relaxed);
    }
}

/// Whether a stack goes to its outermost frame.
#[inline(never)]
pub(crate) fn is_whole(region: Place, number: u32) -> bool {
    let place = stacks::place(described(region, number).load(Relaxed));
    place.is_some_and(|(_, _, end)| end == stacks::End::Outermost as u8)
}

/// What is said of a stack with this number.
fn described(region: Place, number: u32) -> &'static AtomicU64 {
    let index = (number as usize).wrapping_sub(1).min(stacks::STACKS - 1);
    region.at(region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES + 8).word()
}

/// Frames that are recorded.
pub(crate) fn most_frames(cells: &Cells) -> usize {
    cells.control().at(control::MOST_FRAMES).half().load(Relaxed).max(1) as usize
}

/// Has the words of a new stack written. Without room for them it stays one without frames.
#[inline(always)]
pub(crate) fn store_words(
    region: Place,
    entry: Place,
    frames: usize,
    end: u8,
    write: impl FnOnce(Place),
) {
    let taken = region.at(region::STACK_WORDS_TAKEN).word().fetch_add(frames as u64, Relaxed);
    if taken.wrapping_add(frames as u64) > stacks::STACK_WORDS as u64 {
        region.at(region::STACKS_LOST).word().fetch_add(1, Relaxed);
        entry.at(8).word().store(stacks::describe(0, 0, end), Release);
        return;
    }
    write(region.at(region::STACK_WORDS_AT + taken as usize * 8));
    let description = stacks::describe(taken as u32, frames as u8, end);
    entry.at(8).word().store(description, Release);
}
