//! What the hooks are told when they are switched on, and later.

use std::ops::Range;

use heapattach_abi::{
    control,
    region::{self, FILTER_AT, pack_interval},
    row,
    samples::FILTER_BYTES,
};
use nix::errno::Errno;

use crate::{home::Home, hook::nests::Nests, trace::stopped::Stopped};
use heapattach_process::addr::RemoteAddr;

/// What the hooks are told when they are switched on.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Until when, by the time-stamp counter; 0: for ever.
    pub deadline: u64,
    /// Mean bytes between samples; 1 records everything.
    pub interval: u64,
    /// Hooked functions call hooked functions: every call of theirs is looked at.
    pub nests: Nests,
    /// Binary logarithm of the slots of a ring.
    pub ring_bits: u32,
    /// How often a thread looks again for room in a full ring.
    pub ring_patience: u32,
    /// The same for records of mappings.
    pub map_patience: u32,
    /// Where none of these bits is set in the number of such looks, it lets others have its processor,
    /// or sleeps; 0: never.
    pub yield_mask: u32,
    /// Makes the random numbers others than those of the last session.
    pub salt: u32,
    /// Frames of a stack that are recorded.
    pub most_frames: u32,
    /// Of so many stacks one is verified; 0: none.
    pub verify: u32,
    /// Whether unknown stacks may be copied by system calls.
    pub may_copy: bool,
    /// Where the stack of the first thread can be.
    pub first_stack: Range<RemoteAddr>,
}

/// Has hooks that are on take calls of hooked functions by hooked functions for what they are: a wrapper
/// was loaded. Every call of a block takes the slow path from now on if it is one of blocks.
///
/// # Errors
/// When the target cannot be written.
pub fn nest(stop: &Stopped<'_>, home: &Home, nests: Nests) -> Result<(), Errno> {
    let memory = &stop.target().memory;
    let looks = home.control().offset(control::BY_ADDRESS as u64);
    let mut word = [0; 4];
    memory.read(looks, &mut word)?;
    memory.write(looks, &(u32::from_le_bytes(word) | nests.bits()).to_le_bytes())?;
    if !nests.blocks {
        return Ok(());
    }
    // A counter that is full stays full.
    memory.write(home.region().offset(FILTER_AT as u64), &[u8::MAX; FILTER_BYTES])?;
    let taken = memory.word(home.region().offset(region::ROWS_TAKEN as u64))?;
    let rows = usize::try_from(taken).unwrap_or(usize::MAX).min(row::ROWS - 1);
    for number in 0..=rows {
        let at = region::ROWS_AT + number * row::ROW_BYTES + row::THRESHOLD;
        memory.write_word(home.region().offset(at as u64), 0)?;
    }
    Ok(())
}

/// Turns all hooks on.
///
/// # Errors
/// When the target cannot be written.
pub fn enable(stop: &Stopped<'_>, home: &Home, orders: &Orders) -> Result<(), Errno> {
    let memory = &stop.target().memory;
    let by_address = if orders.interval <= 1 { control::EVERY_ADDRESS } else { 0 };
    let looks = by_address | orders.nests.bits();
    if looks & !control::NESTS_MAPS != 0 {
        // Every block that is given back is looked at.
        memory.write(home.region().offset(FILTER_AT as u64), &[u8::MAX; FILTER_BYTES])?;
    }
    let field = |offset: usize| home.control().offset(offset as u64);
    let shared = |offset: usize| home.region().offset(offset as u64);
    memory.write_word(shared(region::DEADLINE_TSC), orders.deadline)?;
    memory.write_word(shared(region::INTERVAL), pack_interval(orders.interval, 0))?;
    memory.write_word(shared(region::FIRST_STACK), orders.first_stack.start.get())?;
    memory.write_word(shared(region::FIRST_STACK_END), orders.first_stack.end.get())?;
    memory.write_word(field(control::REGION), home.region().get())?;
    for (offset, value) in [
        (control::RING_BITS, orders.ring_bits),
        (control::RING_PATIENCE, orders.ring_patience),
        (control::MAP_PATIENCE, orders.map_patience),
        (control::YIELD_MASK, orders.yield_mask),
        (control::SALT, orders.salt),
        (control::MOST_FRAMES, orders.most_frames),
        (control::VERIFY, orders.verify),
        (control::MAY_COPY, orders.may_copy.into()),
        (control::BY_ADDRESS, looks),
        // Last: the hooks look at nothing else before.
        (control::ENABLED, 1),
    ] {
        memory.write(field(offset), &value.to_le_bytes())?;
    }
    Ok(())
}
