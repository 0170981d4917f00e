//! What a thread remembers of one of its last stacks: the frames, and the words of the stack that
//! they were found by. While those words are the same, so are the frames.

use core::mem::offset_of;

/// Threads that remember: as many rows have room for it.
pub const MEMOS: usize = 256;
/// Frames of a stack that is remembered, at most.
pub const FRAMES: usize = 160;
/// Words of the stack that they were found by.
pub const WORDS: usize = 2 * FRAMES;

/// The head of a memo.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Head {
    /// 1 while it is in use: a signal handler that comes in between must do without.
    pub busy: u64,
    /// Frames; 0: nothing is remembered.
    pub frames: u64,
    /// Words.
    pub words: u64,
    /// The generation of the tables that it was made by.
    pub generation: u64,
    /// The number of the whole stack.
    pub stack: u64,
    /// Why it ends.
    pub end: u64,
    /// Stacks in turn for which it was of little use.
    pub misses: u64,
    /// Misses after which it is made anew.
    pub patience: u64,
    /// Stacks since one was verified.
    pub unverified: u64,
    /// The number of the last stack that was another one than what is remembered, and above it how
    /// often in turn it came.
    pub other: u64,
}

/// A frame.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Frame {
    /// The stack pointer in it.
    pub stack: u64,
    /// Where it goes on.
    pub code: u64,
    /// The frame pointer, if it matters from here on.
    pub frame: u64,
    /// The first word that the frames further up were found by, doubled; plus 1 if the frame pointer
    /// matters.
    pub first: u64,
    /// The hash of the frames further up.
    pub hash: u64,
    /// What the hash of the frames below is multiplied by.
    pub power: u64,
}

/// A word of the stack: where, and what was there.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Word {
    /// Its address.
    pub at: u64,
    /// What it was.
    pub value: u64,
}

/// A part of a [`Frame`]: its offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// [`Frame::stack`].
    Stack = offset_of!(Frame, stack),
    /// [`Frame::code`].
    Code = offset_of!(Frame, code),
    /// [`Frame::frame`].
    Frame = offset_of!(Frame, frame),
    /// [`Frame::first`].
    First = offset_of!(Frame, first),
    /// [`Frame::hash`].
    Hash = offset_of!(Frame, hash),
    /// [`Frame::power`].
    Power = offset_of!(Frame, power),
}

/// How a step uses the frame pointer: it finds the caller's frame by it.
pub const USES: u64 = 1;
/// It loads another one from the stack.
pub const RELOADS: u64 = 2;

/// Size of a [`Frame`].
pub const FRAME_BYTES: usize = size_of::<Frame>();
/// Size of a [`Word`].
pub const WORD_BYTES: usize = size_of::<Word>();
/// Offset of [`Head::busy`].
pub const BUSY: usize = offset_of!(Head, busy);
/// Offset of [`Head::frames`].
pub const FRAME_COUNT: usize = offset_of!(Head, frames);
/// Offset of [`Head::words`].
pub const WORD_COUNT: usize = offset_of!(Head, words);
/// Offset of [`Head::generation`].
pub const GENERATION: usize = offset_of!(Head, generation);
/// Offset of [`Head::stack`].
pub const STACK: usize = offset_of!(Head, stack);
/// Offset of [`Head::end`].
pub const END: usize = offset_of!(Head, end);
/// Offset of [`Head::misses`].
pub const MISSES: usize = offset_of!(Head, misses);
/// Offset of [`Head::patience`].
pub const PATIENCE: usize = offset_of!(Head, patience);
/// Offset of [`Head::unverified`].
pub const UNVERIFIED: usize = offset_of!(Head, unverified);
/// Offset of [`Head::other`].
pub const OTHER: usize = offset_of!(Head, other);
/// Offset of the frames.
pub const FRAMES_AT: usize = size_of::<Head>();
/// Offset of the words.
pub const WORDS_AT: usize = FRAMES_AT + FRAMES * size_of::<Frame>();
/// Size of a memo.
pub const MEMO_BYTES: usize = (WORDS_AT + WORDS * size_of::<Word>()).next_multiple_of(4096);
