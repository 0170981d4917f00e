//! From frame to frame up the stack, by the tables that the injector made.
//!
//! Whatever the stack holds, the walk stays in its reach ([`crate::reach`]), goes upwards only, and
//! ends.

use heapattach_abi::{
    memo, region,
    stacks::End,
    unwind::{self, Rule},
};

use crate::{cells::Cells, frame::Frame, reach::Reach, row::Row, rules::Tables};

/// Below the first and from the second on there is no code of a user's program.
const LOWEST_CODE: u64 = 0x1_0000;

/// Registers in what the kernel stores at a signal, from the stack pointer on.
const SIGNAL_REGISTERS: u64 = 40;
const SIGNAL_FRAME_POINTER: u64 = SIGNAL_REGISTERS + 8 * 10;
const SIGNAL_STACK_POINTER: u64 = SIGNAL_REGISTERS + 8 * 15;
const SIGNAL_ADDRESS: u64 = SIGNAL_REGISTERS + 8 * 16;

/// A walk: where it is. It is never copied: compilers copy by vector registers, which are not ours.
pub(crate) struct Walk {
    tables: Tables,
    /// The address of code that the frame goes on at.
    code: u64,
    /// It is that of the next instruction itself, not the one behind a call.
    is_exact: bool,
    stack: u64,
    frame: u64,
    reach: Reach,
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

impl Walk {
    /// Words that one step loads, at most.
    pub(crate) const LOADS: usize = 3;

    pub(crate) fn new(cells: &Cells, frame: &Frame, row: &Row) -> Self {
        let pointer = frame.stack_pointer();
        Self {
            tables: Tables::newest(cells),
            code: frame.return_address,
            is_exact: false,
            stack: pointer + 8,
            frame: frame.rbp,
            reach: Reach::new(cells, row, pointer),
        }
    }

    /// Where the frame goes on.
    pub(crate) fn code(&self) -> u64 {
        self.code
    }

    /// The stack pointer in that frame.
    pub(crate) fn stack(&self) -> u64 {
        self.stack
    }

    /// The frame pointer in it.
    pub(crate) fn frame(&self) -> u64 {
        self.frame
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub(crate) fn generation(&self) -> u64 {
        self.tables.generation
    }

    pub(crate) fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether another walk from here can rely on what this one finds.
    pub(crate) fn can_be_remembered(&self) -> bool {
        self.reach.is_bounded() && self.tables.generation != 0
    }

    /// Why it ends here, if no more frames are wanted: it may be the outermost one.
    #[inline(never)]
    pub(crate) fn end_here(&mut self) -> End {
        match self.step(&mut ()) {
            Err(End::Outermost) => End::Outermost,
            _ => End::Full,
        }
    }

    /// Goes up to the caller's frame.
    #[inline]
    pub(crate) fn step(&mut self, witness: &mut impl Witness) -> Result<(), End> {
        let at = self.code - u64::from(!self.is_exact);
        let Some((is_by_frame, distance, saved)) = unwind::simple(self.tables.rule(at)) else {
            return self.odd_step(at, witness);
        };
        // Which way a frame is found is as good as random, and a wrong guess of the processor's costs
        // more than all the rest: so nothing here is a branch but what hardly ever happens.
        let base = select(is_by_frame, self.frame, self.stack);
        if is_by_frame {
            witness.used(memo::USES);
        }
        let above = base.wrapping_add(8 * distance);
        if above <= self.stack {
            return Err(End::Implausible);
        }
        let code = self.take(above.wrapping_sub(8), witness)?;
        let reloads = saved != 0;
        let slot = above.wrapping_sub(8 * select(reloads, saved, 1));
        let frame = self.load(slot)?;
        self.frame = select(reloads, frame, self.frame);
        if reloads {
            witness.loaded(slot);
            witness.used(memo::RELOADS);
        }
        self.go_on(code, above)
    }

    /// All that is not found simply.
    #[inline(never)]
    fn odd_step(&mut self, at: u64, witness: &mut impl Witness) -> Result<(), End> {
        if self.tables.generation == 0 {
            return self.by_frame_pointer(witness);
        }
        match Rule::unpack(self.tables.rule(at)) {
            // These have been gone by already.
            Some(Rule::Stack { .. } | Rule::Frame { .. }) => Err(End::NoRule),
            Some(Rule::Stored { distance, saves }) => {
                let at = self.frame.wrapping_add_signed(8 * i64::from(distance));
                witness.used(memo::USES);
                let above = self.take(at, witness)?;
                let old = self.frame;
                self.arrive(above, witness)?;
                if saves {
                    self.frame = self.take(old, witness)?;
                    witness.used(memo::RELOADS);
                }
                Ok(())
            }
            Some(Rule::Linkage(byte)) => {
                let more = if at & 15 >= u64::from(byte) { 8 } else { 0 };
                self.arrive(self.stack + 8 + more, witness)
            }
            Some(Rule::Signal) => self.interrupted(witness),
            Some(Rule::Outermost) => Err(End::Outermost),
            Some(Rule::Unknown) => Err(End::NoRule),
            None => self.by_frame_pointer(witness).map_err(|_| End::NoTable),
        }
    }

    /// The frame ends at `above`: the return address is the last word of it.
    fn arrive(&mut self, above: u64, witness: &mut impl Witness) -> Result<(), End> {
        if above <= self.stack {
            return Err(End::Implausible);
        }
        let code = self.take(above.wrapping_sub(8), witness)?;
        self.go_on(code, above)
    }

    #[inline]
    fn go_on(&mut self, code: u64, stack: u64) -> Result<(), End> {
        if code == 0 {
            return Err(End::Outermost);
        }
        if !(LOWEST_CODE..region::ADDRESS_END).contains(&code) {
            return Err(End::Implausible);
        }
        (self.code, self.stack, self.is_exact) = (code, stack, false);
        Ok(())
    }

    /// A handler returns to the kernel, which goes on with the registers it has stored.
    #[cold]
    #[inline(never)]
    fn interrupted(&mut self, witness: &mut impl Witness) -> Result<(), End> {
        let registers = [SIGNAL_ADDRESS, SIGNAL_STACK_POINTER, SIGNAL_FRAME_POINTER];
        let [code, stack, frame] =
            registers.map(|at| self.take(self.stack.wrapping_add(at), witness));
        let (code, stack, frame) = (code?, stack?, frame?);
        self.reach.go_on_at(stack);
        self.go_on(code, stack)?;
        (self.frame, self.is_exact) = (frame, true);
        Ok(())
    }

    /// Where no table knows anything, a frame pointer that looks like one is one.
    #[inline(never)]
    fn by_frame_pointer(&mut self, witness: &mut impl Witness) -> Result<(), End> {
        let at = self.frame;
        if at < self.stack {
            return Err(End::Implausible);
        }
        witness.used(memo::USES | memo::RELOADS);
        let code = self.take(at.wrapping_add(8), witness)?;
        let frame = self.take(at, witness)?;
        if self.reach.contains(code) {
            return Err(End::Implausible);
        }
        self.go_on(code, at + 16)?;
        self.frame = frame;
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

/// One of two, without a branch.
#[inline]
fn select(is_first: bool, first: u64, second: u64) -> u64 {
    let mask = u64::from(is_first).wrapping_neg();
    second ^ ((first ^ second) & mask)
}
