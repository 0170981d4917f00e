//! What a hook leaves on the stack for the slow path: the registers of the call.

use core::mem::offset_of;

use heapattach_abi::{
    form::{Asks, Form},
    frame,
    kind::HookKind,
};

use crate::{arch, cells::Cells};

/// Lies directly below the return address.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Frame {
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub r8: u64,
    pub r9: u64,
    pub rbp: u64,
    /// In: the hook, its kind 8 bits above, and the reason 32 bits above.
    pub call: u64,
    /// For [`crate::hooks::leave`]: what [`crate::hooks::enter`] began.
    pub begun: u64,
    /// The address of the thread's row. In: 0 if the hook has not found it.
    pub row: u64,
    /// The first three arguments; the registers are those after the call by then.
    pub arguments: [u64; 3],
    /// The stamp of what was announced.
    pub announced: u64,
    /// The stamp of the sample that was announced to be freed.
    pub sample: u64,
    /// The call that this one came into the middle of: its stack pointer, and above that the pending
    /// blocks that are not this call's ([`crate::nest`]).
    pub outer: u64,
    /// The block, or the pages, that it frees.
    pub outer_given: u64,
    /// The arithmetic flags of the call, as `lahf` and `seto` tell them, of hooks that keep them.
    pub flags: u64,
    /// The chunk of a block that is exchanged, where sizes are counted. It keeps the stack aligned.
    pub gone: u64,
    pub r11: u64,
    pub r10: u64,
    /// `rax` of the call, then what the original returned.
    pub rax: u64,
    /// Out: where to go on.
    pub target: u64,
    /// Where the call returns to: the caller's.
    pub return_address: u64,
}

/// What `begun` says of a call that asks the kernel for something that is neither a block nor a mapping.
pub(crate) const ASKS: u64 = 256;

/// The size without the return address; 8 less than a multiple of 16.
pub(crate) const FRAME_BYTES: usize = offset_of!(Frame, return_address);

const _: () = assert!(FRAME_BYTES % 16 == 8);
const _: () = assert!(offset_of!(Frame, rdi) == frame::RDI);
const _: () = assert!(offset_of!(Frame, call) == frame::CALL);
const _: () = assert!(offset_of!(Frame, arguments) == frame::BLOCK);
// Where the hooks keep them, below the stack pointer.
const _: () = assert!(FRAME_BYTES - offset_of!(Frame, rax) == 16);
const _: () = assert!(FRAME_BYTES - offset_of!(Frame, r10) == 24);
const _: () = assert!(FRAME_BYTES - offset_of!(Frame, r11) == 32);
const _: () = assert!(FRAME_BYTES - offset_of!(Frame, target) == 8);

/// Why the slow path was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Nothing of the call was accounted for yet.
    Nothing,
    /// The countdown went below zero: the call is a sample. It was not counted yet.
    Sample,
}

impl Frame {
    pub(crate) fn hook(&self) -> usize {
        (self.call & 0xff) as usize
    }

    /// What the hook is for.
    pub(crate) fn kind(&self) -> Option<HookKind> {
        HookKind::of((self.call >> 8) as u8)
    }

    pub(crate) fn reason(&self) -> Reason {
        if self.call >> 32 == 0 { Reason::Nothing } else { Reason::Sample }
    }

    /// The stack pointer at the entry of the hooked function.
    pub(crate) fn stack_pointer(&self) -> u64 {
        (&raw const self.return_address).addr() as u64
    }

    /// Where the call returns to: the caller's. Where the program only tells of a block, the caller is code of
    /// ours, and the program is where that says.
    #[inline(always)]
    pub(crate) fn caller(&self, cells: &Cells) -> u64 {
        match self.is_chosen() && self.is_told(cells) {
            true => self.above(frame::TOLD_CODE),
            false => self.return_address,
        }
    }

    /// The stack pointer then.
    #[inline(always)]
    pub(crate) fn caller_stack(&self, cells: &Cells) -> u64 {
        match self.is_chosen() && self.is_told(cells) {
            true => self.above(frame::TOLD_STACK),
            false => self.stack_pointer() + 8,
        }
    }

    /// One comparison: every record comes through here.
    #[inline(always)]
    pub(crate) fn is_chosen(&self) -> bool {
        (self.call >> 8) as u8 == HookKind::Chosen as u8
    }

    #[cold]
    #[inline(never)]
    fn is_told(&self, cells: &Cells) -> bool {
        Form::unpack(cells.second(self.hook())).asks == Asks::Told
    }

    #[cold]
    #[inline(never)]
    fn above(&self, at: usize) -> u64 {
        arch::read(self.stack_pointer() + at as u64)
    }
}
