//! How records get through a ring: the steps of writer and reader, against any memory of words.
//!
//! Both sides run exactly this, and so does the model checker in the tests. A writer that dies
//! between its steps leaves a slot that is never sealed; the reader waits for it for as long as it
//! wants and then goes on.

use crate::ring::{HEAD, RESERVE_SHIFT, TAIL, is_sealed, seal};

/// Memory that others change too. Offsets are in bytes, of aligned words.
pub trait Words {
    /// Loads without any order.
    fn get(&self, at: usize) -> u64;
    /// Stores without any order.
    fn set(&self, at: usize, value: u64);
    /// Loads; what was stored before the release that it sees is seen by later loads.
    fn acquire(&self, at: usize) -> u64;
    /// Stores; a thread that acquires it sees all that was stored before.
    fn release(&self, at: usize, value: u64);
    /// Stores `new` if `old` is there; acquires and releases.
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool;
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// The reader is a ring behind.
    Full,
    /// Another thread took it in the same moment.
    Contended,
}

/// Tries once to take the next position of the ring whose head is at `head`. What is urgent may use
/// the part of the ring that is kept for it.
///
/// # Errors
/// To be tried again, or not.
pub fn reserve(
    words: &impl Words,
    head: usize,
    capacity: u64,
    is_urgent: bool,
) -> Result<u64, NoSlot> {
    let limit = if is_urgent { capacity } else { capacity - (capacity >> RESERVE_SHIFT) };
    let position = words.get(head + HEAD);
    // Pairs with the release in `advance`: what the reader has copied may be written over.
    let tail = words.acquire(head + TAIL);
    if position.wrapping_sub(tail) >= limit {
        return Err(NoSlot::Full);
    }
    let won = words.exchange(head + HEAD, position, position.wrapping_add(1));
    if won { Ok(position) } else { Err(NoSlot::Contended) }
}

/// Fills the slot of a position that was reserved.
pub fn fill(words: &impl Words, slot: usize, position: u64, stack: u32, rest: [u64; 3]) {
    for (index, word) in rest.into_iter().enumerate() {
        words.set(slot + 8 * (index + 1), word);
    }
    // Pairs with the acquire in `read`: the rest of the slot is there when its seal is.
    words.release(slot, seal(position, stack));
}

/// The slot of a position, if it is written.
#[inline]
pub fn read(words: &impl Words, slot: usize, position: u64) -> Option<[u64; 4]> {
    let seal = words.acquire(slot);
    if !is_sealed(seal, position) {
        return None;
    }
    Some([seal, words.get(slot + 8), words.get(slot + 16), words.get(slot + 24)])
}

/// Gives back all slots before `tail` to the writers.
pub fn advance(words: &impl Words, head: usize, tail: u64) {
    words.release(head + TAIL, tail);
}
