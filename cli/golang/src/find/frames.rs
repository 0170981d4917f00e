//! The frames of a stack, by the tables that the runtime itself unwinds with, and which words of a frame it takes for
//! pointers. No program is without them, stripped or not.

use std::{cell::RefCell, collections::HashMap};

use heapattach_census::Moment;

use super::{Functions, pc_table::value_at};
use crate::graph::layout::Layout;

/// Frames of one stack.
const MOST: usize = 256;
/// The first release whose functions note the line that they begin at.
const WITH_LINES: u32 = 20;
/// From there on the data of a module has three more words before what leads to the data of its functions.
const WITH_TABLES: u32 = 27;
/// Which bitmap of a function holds at a place of its code; and its bitmaps, of arguments and of its own words.
const WHICH_BITMAP: u64 = 1;
const ARGUMENTS: u64 = 0;
const OWN: u64 = 1;
/// No frame has more words.
const MOST_WORDS: u64 = 1 << 24;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where its function goes on.
    pub code: u64,
    /// Where it begins: the stack pointer of its function.
    pub from: u64,
    /// Where it ends: behind the address that the function returns to.
    pub end: u64,
}

/// Where the bits of a bitmap are, and for how many words.
type Bits = (u64, u64);

/// Finds frames.
pub struct Frames<'a, 'm> {
    functions: &'a Functions,
    moment: &'a Moment<'m>,
    minor: u32,
    /// What the data of functions is counted from.
    data: Option<u64>,
    /// Of frames, by where their functions go on.
    sizes: RefCell<HashMap<u64, Option<u64>>>,
    /// By where a function goes on, and the kind: its bits, and for how many words they are.
    bitmaps: RefCell<HashMap<(u64, u64), Option<Bits>>>,
}

impl<'a, 'm> Frames<'a, 'm> {
    /// Of a program.
    pub fn new(functions: &'a Functions, moment: &'a Moment<'m>, layout: &Layout) -> Self {
        let minor = layout.minor;
        let behind = if minor >= WITH_TABLES { 32 } else { 16 };
        let place = layout.module.etypes.place(functions.module).wrapping_add(behind);
        let (sizes, bitmaps) = Default::default();
        Self { functions, moment, minor, data: moment.word(place), sizes, bitmaps }
    }

    /// From the innermost on, which goes on at `code` and whose stack pointer is `sp`; as far as they are certain.
    pub fn of_stack(&self, code: u64, sp: u64, stack_end: u64) -> Vec<Frame> {
        let (mut code, mut sp) = (code, sp);
        let mut frames = Vec::new();
        while frames.len() < MOST {
            let end = self.size(code).and_then(|size| sp.checked_add(size)?.checked_add(8));
            let Some(end) = end.filter(|end| end & 7 == 0 && *end <= stack_end) else { break };
            frames.push(Frame { code, from: sp, end });
            let Some(back) = self.moment.word(end - 8) else { break };
            (code, sp) = (back, end);
        }
        frames
    }

    /// How far the function has moved the stack pointer there.
    fn size(&self, code: u64) -> Option<u64> {
        *self.sizes.borrow_mut().entry(code).or_insert_with(|| self.look(code))
    }

    fn look(&self, code: u64) -> Option<u64> {
        let (entry, head, tables) = self.functions.head(code)?;
        let own = self.word(head + 16).filter(|at| *at != 0)?;
        let size = value_at(self.moment, tables.checked_add(own)?, entry, code)?;
        u64::try_from(size).ok()
    }

    /// Whether the runtime takes the word at that address of a frame for a pointer; `None` where it does not say. Words
    /// of variables whose address is taken are not among these.
    pub fn is_pointer(&self, frame: &Frame, at: u64) -> Option<bool> {
        if at >= frame.end {
            let (bits, words) = self.bitmap(frame.code, ARGUMENTS)?;
            let number = (at - frame.end) / 8;
            return (number < words).then(|| self.bit(bits, number))?;
        }
        // Its own words lie below where it keeps the frame pointer of its caller, and that below the address.
        let has_frame = frame.end - 8 > frame.from;
        let top = frame.end - if has_frame { 16 } else { 8 };
        let (bits, words) = self.bitmap(frame.code, OWN)?;
        let first = top.checked_sub(words * 8)?;
        match (first..top).contains(&at) {
            true => self.bit(bits, (at - first) / 8),
            false => Some(false),
        }
    }

    /// Where the bits are that hold at a place of the code, and for how many words.
    fn bitmap(&self, code: u64, kind: u64) -> Option<Bits> {
        let look = || self.look_for_bitmap(code, kind);
        *self.bitmaps.borrow_mut().entry((code, kind)).or_insert_with(look)
    }

    fn look_for_bitmap(&self, code: u64, kind: u64) -> Option<Bits> {
        let (entry, head, tables) = self.functions.head(code)?;
        let lists = head + if self.minor >= WITH_LINES { 44 } else { 40 };
        let (count, data) = (self.word(head + 28)?, self.word(lists - 4)? >> 24);
        let table =
            (count > WHICH_BITMAP).then(|| self.word(lists + WHICH_BITMAP * 4)).flatten()?;
        let before = code.saturating_sub(u64::from(code > entry));
        let which = match table {
            0 => -1,
            table => value_at(self.moment, tables.checked_add(table)?, entry, before)?,
        };
        // Before the first place that has one, that of the entry holds.
        let which = u64::try_from(which).unwrap_or(0);
        let own = (data > kind).then(|| self.word(lists + (count + kind) * 4)).flatten()?;
        let at = self.data?.checked_add(own).filter(|_| own != u64::from(u32::MAX))?;
        let (maps, words) = (self.word(at)?, self.word(at.checked_add(4)?)?);
        let is_one = which < maps && words < MOST_WORDS;
        let bits = at.checked_add(8 + which.checked_mul(words.div_ceil(8))?)?;
        is_one.then_some((bits, words))
    }

    fn bit(&self, bits: u64, number: u64) -> Option<bool> {
        Some(self.word(bits.checked_add(number / 8)?)? >> (number % 8) & 1 == 1)
    }

    /// Four bytes.
    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        let read = self.moment.read(at, &mut bytes);
        (read == bytes.len()).then(|| u64::from(u32::from_le_bytes(bytes)))
    }
}
