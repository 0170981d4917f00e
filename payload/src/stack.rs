//! The call stack: who asked. Its frames are stored once, and a record names them by a number.
//!
//! It is walked twice where it is new: once to know it, once to store it, so that no buffer is needed.

use core::sync::atomic::Ordering::Relaxed;

use heapattach_abi::{
    region, row,
    stacks::{self, End},
};

use crate::{
    cells::Cells,
    frame::Frame,
    memo::Memo,
    python,
    row::Row,
    rules::Tables,
    shared_word::Place,
    stack_store::{most_frames, number, store_words},
    unwind::Walk,
};

/// The number of the stack that led here; 0 if there is no room for another.
#[inline(always)]
pub(crate) fn capture(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let Some(memo) = Memo::claim(cells, row) else {
        let stack = walk_all(cells, frame, row);
        return python::combined(cells, frame, row, stack);
    };
    let mut stack = memo.same(cells, frame, row);
    if stack == 0 {
        stack = follow(cells, frame, row, &memo);
    }
    if memo.is_to_be_verified(cells) {
        stack = verified(cells, frame, row, stack);
    }
    memo.give_back();
    python::combined(cells, frame, row, stack)
}

/// The same for a stack that is another one than the last.
#[inline(never)]
fn follow(cells: &Cells, frame: &Frame, row: &Row, memo: &Memo) -> u32 {
    let walk = &mut Walk::new(cells, frame, row);
    if !walk.can_be_remembered() {
        return walk_all(cells, frame, row);
    }
    let most = most_frames(cells);
    let known = memo.walk(walk, most);
    let hash = stacks::hash_end(known.hash, known.frames, known.end);
    let stack = number_of_walk(cells, frame, row, hash, known.frames, known.end);
    if memo.is_outdated(known.walked, stack) {
        memo.remember(&mut Walk::new(cells, frame, row), most, stack);
    }
    stack
}

/// The number by a walk without help, counted if it is another.
#[cold]
#[inline(never)]
fn verified(cells: &Cells, frame: &Frame, row: &Row, stack: u32) -> u32 {
    let whole = walk_all(cells, frame, row);
    let counter = |at| cells.region().at(at).word();
    counter(region::VERIFIED).fetch_add(1, Relaxed);
    if whole != stack {
        counter(region::DIFFERED).fetch_add(1, Relaxed);
    }
    whole
}

/// The number of the stack that is its caller alone.
#[inline]
pub(crate) fn caller(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let (last, tables) = (row.field(row::LAST_CALLER), Tables::newest(cells));
    // Where a chosen function returns to is not always who called it.
    if tables.is_stale || frame.is_chosen() {
        return other_caller(cells, frame, row);
    }
    // The same address may be another caller by other tables.
    let caller = frame.return_address.wrapping_add(tables.hash_start());
    match row::stack_of_caller(last.get(), caller) {
        0 => {
            let stack = other_caller(cells, frame, row);
            last.set(row::pack_caller(caller, stack));
            stack
        }
        stack => stack,
    }
}

#[inline(never)]
fn other_caller(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let mut walk = Walk::new(cells, frame, row);
    let at = walk.arrived();
    let caller = if walk.is_named() { walk.word(at) } else { at.code };
    let hash = stacks::hash_step(walk.hash_start(), caller);
    number_of_walk(cells, frame, row, stacks::hash_end(hash, 1, End::Full), 1, End::Full)
}

/// The same without what is remembered.
#[inline(never)]
fn walk_all(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let most = most_frames(cells);
    let walk = &mut Walk::new(cells, frame, row);
    let (mut hash, mut frames) = (walk.hash_start(), 0_usize);
    if walk.is_named() {
        return walk_named(cells, frame, row);
    }
    let end = each::<false>(walk, most, |word| {
        hash = stacks::hash_step(hash, word);
        frames += 1;
    });
    number_of_walk(cells, frame, row, stacks::hash_end(hash, frames, end), frames, end)
}

/// The same where the numbers of modules are a part of the stack's identity.
#[cold]
#[inline(never)]
fn walk_named(cells: &Cells, frame: &Frame, row: &Row) -> u32 {
    let most = most_frames(cells);
    let walk = &mut Walk::new(cells, frame, row);
    let (mut hash, mut frames) = (walk.hash_start(), 0_usize);
    let end = each::<true>(walk, most, |word| {
        hash = stacks::hash_step(hash, word);
        frames += 1;
    });
    number_of_walk(cells, frame, row, stacks::hash_end(hash, frames, end), frames, end)
}

/// The number of the stack with this hash, which a walk leads to.
fn number_of_walk(
    cells: &Cells,
    frame: &Frame,
    row: &Row,
    hash: u64,
    frames: usize,
    end: End,
) -> u32 {
    number(cells.region(), hash, |region, entry| {
        store(region, entry, &mut Walk::new(cells, frame, row), frames, end);
    })
}

/// Goes up the whole stack; says why no further. Frames are told with the numbers of their modules, or
/// without.
#[inline]
fn each<const IS_NAMED: bool>(walk: &mut Walk, most: usize, mut tell: impl FnMut(u64)) -> End {
    let mut at = walk.arrived();
    for left in (0..most).rev() {
        tell(if IS_NAMED { walk.word(at) } else { at.code });
        if left == 0 {
            return walk.end_at(at);
        }
        if let Err(end) = walk.step(&mut at, &mut ()) {
            return end;
        }
    }
    End::Full
}

/// Writes the frames of a new stack.
#[cold]
#[inline(never)]
fn store(region: Place, entry: Place, walk: &mut Walk, frames: usize, end: End) {
    store_words(region, entry, frames, end as u8, |mut words| {
        each::<true>(walk, frames, |word| {
            words.set(word);
            words = words.at(8);
        });
    });
}
