//! What the hooks keep for one thread, in memory shared with the reader.
//!
//! A thread changes its own row with plain single instructions, which a signal handler of the same
//! thread cannot tear. Row 0 is shared by all threads that found no other; it is changed with locked ones.
//! Nothing is ever taken away: a row outlives its thread, and a later thread with the same thread
//! pointer goes on with it.

use core::mem::offset_of;

use crate::{
    kind::MAX_HOOKS,
    nest::{PENDING, Pending},
};

/// Calls and the bytes they asked for.
///
/// A request of more than `i64::MAX` bytes, which no allocator can grant, counts as a call of
/// 0 bytes: one `malloc(-1)` would otherwise turn the sum of a whole session into nonsense.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of calls.
    pub calls: u64,
    /// Sum of the bytes asked for, modulo 2^64.
    pub bytes: u64,
}

/// One thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Thread pointer of the owner; 0 in row 0.
    pub key: u64,
    /// Bytes until the next sample. A block that is larger is one, if it is below `threshold`.
    pub countdown: u64,
    /// A block of at least this size is always recorded and leaves the countdown alone. 0 records
    /// everything.
    pub threshold: u64,
    /// The interval that `countdown` was drawn with ([`crate::region::pack_interval`]).
    pub interval: u64,
    /// Slow paths until the next look at the heartbeat.
    pub ticks: u64,
    /// State of the generator of random numbers; 0 before the first.
    pub random: u64,
    /// How many slow paths of the thread have not come to their end: a thread with any may have
    /// return addresses into the payload on its stack.
    pub busy: u64,
    /// The ring that its records go to.
    pub ring: u64,
    /// Where the stack that is its own begins; 0 until that is known.
    pub stack_start: u64,
    /// Where that stack ends; 0 until that is known.
    pub stack_end: u64,
    /// Records of blocks that found no room in the ring.
    pub dropped_blocks: u64,
    /// Records of blocks freed that found no room in the ring.
    pub dropped_frees: u64,
    /// Samples that found no room in the table of samples.
    pub dropped_samples: u64,
    /// Stack pointer at the thread's first slow path, for the reader to find its stack by.
    pub stack_hint: u64,
    /// One more than the tail of the ring when the thread last waited for room in vain: while the
    /// reader has not moved, it does not wait again.
    pub gave_up_at: u64,
    /// How far from the thread pointer the words are that tell where its stack is; 0: no thread has
    /// looked yet; [`NO_PROOF`]: there are none, and `stack_start` and `stack_end` count.
    pub stack_proof: u64,
    /// The last caller that was told on its own, and the number of its stack ([`pack_caller`]).
    pub last_caller: u64,
    /// The state of the thread in a Python interpreter ([`crate::python`]); 0 while it is not known.
    pub python_state: u64,
    /// The page that its innermost frame was in.
    pub python_page: u64,
    /// Records until that state is looked for again, and above them how many there were the last time.
    pub python_wait: u64,
    /// Where the row's own counts of blocks by size are ([`crate::flow`]).
    pub flow: u64,
    /// The stack pointer at the call that the thread is in the middle of ([`crate::nest`]); 0: none.
    pub nest_pointer: u64,
    /// The block that this call frees.
    pub nest_block: u64,
    /// How many of `pending` are in use.
    pub nest_count: u64,
    /// Per hook.
    pub counts: [Count; MAX_HOOKS],
    /// Blocks allocated in the middle of that call.
    pub pending: [Pending; PENDING],
    /// Records that waited for room in the ring.
    pub waited: u64,
    /// Not 0 while the thread asks its allocator how large a block is.
    pub sizing: u64,
    /// As `nest_pointer`, of calls that map and unmap.
    pub map_nest_pointer: u64,
    /// The pages that this call frees ([`crate::nest::pack_pages`]).
    pub map_nest_pages: u64,
    /// How many of `map_pending` are in use.
    pub map_nest_count: u64,
    /// Mappings made in the middle of that call.
    pub map_pending: [Pending; PENDING],
    /// Keep rows from sharing cache lines.
    pub unused: [u64; 3],
}

const CALLER_SHIFT: u32 = 21;

/// Caller and number of its stack in one word, which no signal handler can tear. The uppermost bits of
/// an address do not fit, and no two pieces of code are that far apart to the byte.
pub const fn pack_caller(caller: u64, stack: u32) -> u64 {
    caller << CALLER_SHIFT | stack as u64
}

/// The number of the stack of this caller, if it is the one of the word; or 0.
pub const fn stack_of_caller(word: u64, caller: u64) -> u32 {
    let stack = word & ((1 << CALLER_SHIFT) - 1);
    if word ^ stack == caller << CALLER_SHIFT { stack as u32 } else { 0 }
}

/// No distance of aligned words.
pub const NO_PROOF: u64 = 1;

/// Size of a row.
pub const ROW_BYTES: usize = size_of::<Row>();
/// Size of a [`Count`].
pub const COUNT_BYTES: usize = size_of::<Count>();
/// All rows: the shared one, and those of threads.
pub const ROWS: usize = 2048;
/// A thread looks at the heartbeat once in so many slow paths.
pub const TICKS: u64 = 1024;

/// Offset of [`Row::key`].
pub const KEY: usize = offset_of!(Row, key);
/// Offset of [`Row::countdown`].
pub const COUNTDOWN: usize = offset_of!(Row, countdown);
/// Offset of [`Row::threshold`].
pub const THRESHOLD: usize = offset_of!(Row, threshold);
/// Offset of [`Row::interval`].
pub const INTERVAL: usize = offset_of!(Row, interval);
/// Offset of [`Row::ticks`].
pub const ROW_TICKS: usize = offset_of!(Row, ticks);
/// Offset of [`Row::random`].
pub const RANDOM: usize = offset_of!(Row, random);
/// Offset of [`Row::busy`].
pub const BUSY: usize = offset_of!(Row, busy);
/// Offset of [`Row::ring`].
pub const RING: usize = offset_of!(Row, ring);
/// Offset of [`Row::stack_start`].
pub const STACK_START: usize = offset_of!(Row, stack_start);
/// Offset of [`Row::stack_end`].
pub const STACK_END: usize = offset_of!(Row, stack_end);
/// Offset of [`Row::dropped_blocks`].
pub const DROPPED_BLOCKS: usize = offset_of!(Row, dropped_blocks);
/// Offset of [`Row::dropped_frees`].
pub const DROPPED_FREES: usize = offset_of!(Row, dropped_frees);
/// Offset of [`Row::dropped_samples`].
pub const DROPPED_SAMPLES: usize = offset_of!(Row, dropped_samples);
/// Offset of [`Row::stack_hint`].
pub const STACK_HINT: usize = offset_of!(Row, stack_hint);
/// Offset of [`Row::gave_up_at`].
pub const GAVE_UP_AT: usize = offset_of!(Row, gave_up_at);
/// Offset of [`Row::stack_proof`].
pub const STACK_PROOF: usize = offset_of!(Row, stack_proof);
/// Offset of [`Row::last_caller`].
pub const LAST_CALLER: usize = offset_of!(Row, last_caller);
/// Offset of [`Row::python_state`].
pub const PYTHON_STATE: usize = offset_of!(Row, python_state);
/// Offset of [`Row::python_page`].
pub const PYTHON_PAGE: usize = offset_of!(Row, python_page);
/// Offset of [`Row::python_wait`].
pub const PYTHON_WAIT: usize = offset_of!(Row, python_wait);
/// Offset of [`Row::flow`].
pub const FLOW: usize = offset_of!(Row, flow);
/// Offset of [`Row::nest_pointer`].
pub const NEST_POINTER: usize = offset_of!(Row, nest_pointer);
/// Offset of [`Row::nest_block`].
pub const NEST_BLOCK: usize = offset_of!(Row, nest_block);
/// Offset of [`Row::nest_count`].
pub const NEST_COUNT: usize = offset_of!(Row, nest_count);
/// Offset of [`Row::waited`].
pub const WAITED: usize = offset_of!(Row, waited);
/// Offset of [`Row::sizing`].
pub const SIZING: usize = offset_of!(Row, sizing);
/// Offset of [`Row::map_nest_pointer`].
pub const MAP_NEST_POINTER: usize = offset_of!(Row, map_nest_pointer);
/// Offset of [`Row::map_nest_pages`].
pub const MAP_NEST_PAGES: usize = offset_of!(Row, map_nest_pages);
/// Offset of [`Row::map_nest_count`].
pub const MAP_NEST_COUNT: usize = offset_of!(Row, map_nest_count);
/// Offset of [`Row::map_pending`].
pub const MAP_PENDING_AT: usize = offset_of!(Row, map_pending);
/// Offset of [`Row::pending`].
pub const PENDING_AT: usize = offset_of!(Row, pending);
/// Offset of [`Row::counts`].
pub const COUNTS: usize = offset_of!(Row, counts);

const _: () = assert!(COUNT_BYTES == 16);
const _: () = assert!(KEY == 0);
const _: () = assert!(COUNTS == 192);
const _: () = assert!(ROW_BYTES == 1920);
const _: () = assert!(crate::stacks::STACKS < 1 << CALLER_SHIFT);
