//! From frame to frame up the stack, by the tables that the injector made.
//!
//! Whatever the stack holds, the walk stays in its reach ([`crate::readable`]), goes upwards only, and
//! ends.

use heapattach_abi::{
    late, memo, region,
    stacks::End,
    unwind::{self, Rule},
};

use crate::{
    cells::Cells,
    frame::{FRAME_BYTES, Frame},
    late::Late,
    readable::Reach,
    row::Row,
    rules::Tables,
};

/// Below the first and from the second on there is no code of a user's program.
const LOWEST_CODE: u64 = 0x1_0000;

/// Registers in what the kernel stores at a signal, from the stack pointer on.
const SIGNAL_REGISTERS: u64 = 40;
const SIGNAL_FRAME_POINTER: u64 = SIGNAL_REGISTERS + 8 * 10;
const SIGNAL_STACK_POINTER: u64 = SIGNAL_REGISTERS + 8 * 15;
const SIGNAL_ADDRESS: u64 = SIGNAL_REGISTERS + 8 * 16;

/// A walk: by which tables, and through which memory. It is never copied: compilers copy by vector
/// registers, which are not ours.
pub(crate) struct Walk {
    tables: Tables,
    reach: Reach,
    late: Late,
    /// Where a call of ours returns to.
    own_return: u64,
    /// The caller of the hooked function, then where [`Walk::careful_step`] has led.
    arrived: Position,
}

/// A frame of a walk. Made of words that stay in registers.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    /// Where the frame goes on.
    pub code: u64,
    /// Where it is looked up: the same if that is the next instruction itself, one less if it is the
    /// one behind a call.
    pub lookup: u64,
    /// The stack pointer in it.
    pub stack: u64,
    /// The frame pointer in it.
    pub frame: u64,
}

/// Who wants to know what a step depends on.
pub(crate) trait Witness {
    /// The word at this address was loaded.
    fn loaded(&mut self, at: u64);
    /// [`memo::USES`] and [`memo::RELOADS`] of the frame pointer; if it is reloaded, by the last load.
    fn used(&mut self, how: u64);
}

impl Witness for () {
    fn loaded(&mut self, _: u64) {}

    fn used(&mut self, _: u64) {}
}

impl Position {
    /// Whether `code` is that of the next instruction itself, not the one behind a call.
    pub(crate) fn is_exact(&self) -> bool {
        self.code == self.lookup
    }
}

impl Walk {
    /// Words that one step loads, at most.
    pub(crate) const LOADS: usize = 3;

    #[inline]
    pub(crate) fn new(cells: &Cells, frame: &Frame, row: &Row) -> Self {
        let tables = Tables::newest(cells);
        let (code, stack) = (frame.caller(cells), frame.caller_stack(cells));
        let reach = Reach::new(cells, row, frame.stack_pointer());
        let arrived = Position { code, lookup: code - 1, stack, frame: frame.rbp };
        let (late, own_return) = (Late::new(cells), cells.own_return());
        Self { tables, reach, late, own_return, arrived }
    }

    /// A walk from a frame further up on the same stack.
    #[cold]
    #[inline(never)]
    pub(crate) fn from(cells: &Cells, row: &Row, code: u64, stack: u64, frame: u64) -> Self {
        let (tables, reach) = (Tables::newest(cells), Reach::new(cells, row, stack));
        let arrived = Position { code, lookup: code.wrapping_sub(1), stack, frame };
        let (late, own_return) = (Late::new(cells), cells.own_return());
        Self { tables, reach, late, own_return, arrived }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.tables.generation
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether another walk from here can rely on what this one finds.
    pub(crate) fn can_be_remembered(&self) -> bool {
        self.reach.is_bounded() && self.tables.generation != 0 && !self.tables.is_stale
    }

    /// What the hash of the stack begins with.
    pub(crate) fn hash_start(&self) -> u64 {
        self.tables.hash_start()
    }

    /// Whether the numbers of modules belong to the identity of the stack, since what its addresses are
    /// may change at any time.
    pub(crate) fn is_named(&self) -> bool {
        self.tables.is_stale
    }

    /// A frame as it is stored: with the number of its module.
    #[cold]
    #[inline(never)]
    pub(crate) fn word(&mut self, at: Position) -> u64 {
        let number = if self.tables.is_stale {
            self.late.number(&self.tables, at.lookup)
        } else {
            self.tables.number(at.lookup)
        };
        late::pack(at.code, number)
    }

    /// Whether no table says how the frame of this code ends: it was generated, or written by hand.
    pub(crate) fn has_no_table(&mut self, lookup: u64) -> bool {
        Rule::unpack(self.rule(lookup)).is_none()
    }

    /// The rule for an address, packed.
    #[inline(never)]
    fn rule(&mut self, lookup: u64) -> u32 {
        if self.tables.is_stale {
            self.late.rule(&self.tables, lookup)
        } else {
            self.tables.rule(lookup)
        }
    }

    /// Whether this is code of ours, of a call that this one is in the middle of.
    pub(crate) fn is_own(&self, lookup: u64) -> bool {
        lookup == self.own_return - 1
    }

    /// Why it ends here, if no more frames are wanted: it may be the outermost one.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_at(&mut self, at: Position) -> End {
        match self.careful_step(at.lookup, at.stack, at.frame, &mut ()) {
            Err(End::Outermost) => End::Outermost,
            _ => End::Full,
        }
    }

    /// Goes up to the caller's frame.
    #[inline(always)]
    pub(crate) fn step(
        &mut self,
        at: &mut Position,
        witness: &mut impl Witness,
    ) -> Result<(), End> {
        if let Some((is_by_frame, distance, saved)) = unwind::simple(self.tables.cached(at.lookup))
        {
            // Which way a frame is found is as good as random, and a wrong guess of the processor's
            // costs more than all the rest: so nothing here is a branch but what hardly ever happens.
            let base = select(is_by_frame, at.frame, at.stack);
            let above = base.wrapping_add(8 * distance);
            let reloads = saved != 0;
            let slot = above.wrapping_sub(8 * select(reloads, saved, 1));
            let words =
                (self.reach.span().peek(above.wrapping_sub(8)), self.reach.span().peek(slot));
            if let (Some(code), Some(word)) = words
                && above > at.stack
                && above.is_multiple_of(8)
                && is_code(code)
            {
                if is_by_frame {
                    witness.used(memo::USES);
                }
                witness.loaded(above.wrapping_sub(8));
                if reloads {
                    witness.loaded(slot);
                    witness.used(memo::RELOADS);
                }
                (at.code, at.lookup, at.stack) = (code, code - 1, above);
                at.frame = select(reloads, word, at.frame);
                return Ok(());
            }
        }
        self.careful_step(at.lookup, at.stack, at.frame, witness)?;
        (at.code, at.lookup) = (self.arrived.code, self.arrived.lookup);
        (at.stack, at.frame) = (self.arrived.stack, self.arrived.frame);
        Ok(())
    }

    /// Where it begins, and where the last careful step has led; word by word.
    #[inline(always)]
    pub(crate) fn arrived(&self) -> Position {
        let Position { code, lookup, stack, frame } = self.arrived;
        Position { code, lookup, stack, frame }
    }

    /// The same, for whatever rule there is and whatever comes of it; [`Walk::arrived`] tells where.
    /// The words of the position come one by one, so that they need not be in memory otherwise.
    #[cold]
    #[inline(never)]
    pub(crate) fn careful_step(
        &mut self,
        lookup: u64,
        stack: u64,
        frame: u64,
        witness: &mut impl Witness,
    ) -> Result<(), End> {
        (self.arrived.stack, self.arrived.frame) = (stack, frame);
        if self.tables.generation == 0 {
            return self.by_frame_pointer(witness);
        }
        match Rule::unpack(self.rule(lookup)) {
            Some(Rule::Stack { distance, saved }) => {
                let above = stack.wrapping_add(8 * u64::from(distance));
                self.simple_frame(above, saved, witness)
            }
            Some(Rule::Frame { distance, saved }) => {
                witness.used(memo::USES);
                let above = frame.wrapping_add(8 * u64::from(distance));
                self.simple_frame(above, saved, witness)
            }
            Some(Rule::Stored { distance, saves }) => {
                let stored = frame.wrapping_add_signed(8 * i64::from(distance));
                witness.used(memo::USES);
                let above = self.take(stored, witness)?;
                self.arrive(above, witness)?;
                if saves {
                    self.arrived.frame = self.take(frame, witness)?;
                    witness.used(memo::RELOADS);
                }
                Ok(())
            }
            Some(Rule::Linkage(byte)) => {
                let more = if lookup & 15 >= u64::from(byte) { 8 } else { 0 };
                self.arrive(stack.wrapping_add(8 + more), witness)
            }
            Some(Rule::Signal) => self.interrupted(witness),
            Some(Rule::Outermost) => Err(End::Outermost),
            Some(Rule::Unknown) => Err(End::NoRule),
            // A frame of ours, of a call that this one is in the middle of.
            None if lookup == self.own_return - 1 => {
                self.simple_frame(stack.wrapping_add(FRAME_BYTES as u64 + 8), 0, witness)
            }
            None => self
                .by_frame_pointer(witness)
                .map_err(|_| if self.late.is_blind() { End::Late } else { End::NoTable }),
        }
    }

    /// The frame ends at `above`, and the frame pointer is saved so many words below, or not at all.
    fn simple_frame(
        &mut self,
        above: u64,
        saved: u32,
        witness: &mut impl Witness,
    ) -> Result<(), End> {
        self.arrive(above, witness)?;
        if saved != 0 {
            self.arrived.frame = self.take(above.wrapping_sub(8 * u64::from(saved)), witness)?;
            witness.used(memo::RELOADS);
        }
        Ok(())
    }

    /// The frame ends at `above`: the return address is the last word of it.
    fn arrive(&mut self, above: u64, witness: &mut impl Witness) -> Result<(), End> {
        if above <= self.arrived.stack {
            return Err(End::Implausible);
        }
        let code = plausible(self.take(above.wrapping_sub(8), witness)?)?;
        let frame = self.arrived.frame;
        self.arrived = Position { code, lookup: code - 1, stack: above, frame };
        Ok(())
    }

    /// A handler returns to the kernel, which goes on with the registers it has stored.
    fn interrupted(&mut self, witness: &mut impl Witness) -> Result<(), End> {
        let from = self.arrived.stack;
        let code = self.take(from.wrapping_add(SIGNAL_ADDRESS), witness)?;
        let stack = self.take(from.wrapping_add(SIGNAL_STACK_POINTER), witness)?;
        let frame = self.take(from.wrapping_add(SIGNAL_FRAME_POINTER), witness)?;
        self.reach.go_on_at(stack);
        let code = plausible(code)?;
        self.arrived = Position { code, lookup: code, stack, frame };
        Ok(())
    }

    /// Where no table knows anything, a frame pointer that looks like one is one.
    fn by_frame_pointer(&mut self, witness: &mut impl Witness) -> Result<(), End> {
        let at = self.arrived.frame;
        if at < self.arrived.stack {
            return Err(End::Implausible);
        }
        witness.used(memo::USES | memo::RELOADS);
        let code = self.take(at.wrapping_add(8), witness)?;
        let frame = self.take(at, witness)?;
        if self.reach.contains(code) {
            return Err(End::Implausible);
        }
        let code = plausible(code)?;
        let stack = at.wrapping_add(16);
        self.arrived = Position { code, lookup: code - 1, stack, frame };
        Ok(())
    }

    /// Loads a word that the step depends on.
    fn take(&self, at: u64, witness: &mut impl Witness) -> Result<u64, End> {
        witness.loaded(at);
        self.load(at)
    }

    /// A word of the stack, if it is one.
    pub(crate) fn load(&self, at: u64) -> Result<u64, End> {
        self.reach.load(at)
    }
}

/// Whether an address can be one of a user's code.
fn is_code(address: u64) -> bool {
    (LOWEST_CODE..region::ADDRESS_END).contains(&address)
}

fn plausible(code: u64) -> Result<u64, End> {
    match code {
        0 => Err(End::Outermost),
        _ if is_code(code) => Ok(code),
        _ => Err(End::Implausible),
    }
}

/// One of two, without a branch.
#[inline]
fn select(is_first: bool, first: u64, second: u64) -> u64 {
    let mask = u64::from(is_first).wrapping_neg();
    second ^ ((first ^ second) & mask)
}
