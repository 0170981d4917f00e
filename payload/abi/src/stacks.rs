//! Call stacks, each stored once: an index by hash, and the frames behind it.

/// Entries of the near part of the index: the only one that most programs need, so that few pages of
/// it are in use.
pub const NEAR: usize = 1 << 17;
/// Entries of the far part, for stacks that find no room in the near one.
pub const FAR: usize = 1 << 20;
/// Stacks at most.
pub const STACKS: usize = NEAR + FAR;
/// Size of an entry: hash, then place and length.
pub const ENTRY_BYTES: usize = 16;
/// Size of the index: the near part, then the far one.
pub const STACK_INDEX_BYTES: usize = STACKS * ENTRY_BYTES;
/// Entries of a part that are looked at for one stack; the last go on at the start.
pub const PROBES: usize = 32;
/// Words for all frames.
pub const STACK_WORDS: usize = 1 << 24;
/// Size of them.
pub const STACK_WORDS_BYTES: usize = STACK_WORDS * 8;
/// Frames of one stack at most.
pub const MAX_FRAMES: usize = 255;
/// The same, unless the user says otherwise.
pub const USUAL_FRAMES: u32 = 128;

/// Why a stack ends where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// The outermost frame was reached.
    Outermost = 1,
    /// As many frames were found as are recorded at most.
    Full = 2,
    /// The stack goes on in memory that is not known to be a stack: a coroutine's, or that of a
    /// signal handler.
    Unbounded = 3,
    /// Code that no table describes, and that has no frame pointer either.
    NoTable = 4,
    /// The table says something that we cannot follow.
    NoRule = 5,
    /// The next frame is not where a frame can be: without tables most likely the outermost was
    /// reached, or code without frame pointers.
    Implausible = 6,
    /// Code that was loaded a moment ago, so that no table describes it yet, and that could not be
    /// looked at.
    Late = 7,
}

impl End {
    /// The end with this value.
    pub const fn of(value: u8) -> Option<Self> {
        Some(match value {
            1 => Self::Outermost,
            2 => Self::Full,
            3 => Self::Unbounded,
            4 => Self::NoTable,
            5 => Self::NoRule,
            6 => Self::Implausible,
            7 => Self::Late,
            _ => return None,
        })
    }
}

/// Place, length and end as the second word of an entry; 0 is an entry that is just being filled,
/// and that no record names yet.
pub const fn describe(first_word: u32, frames: u8, end: u8) -> u64 {
    first_word as u64 | (frames as u64) << 32 | (end as u64) << 40 | 1 << 63
}

/// In an entry's second word: how often it was looked for a script in the stack, and there was none.
pub const ONE_IN_VAIN: u64 = 1 << 48;

/// How often that was.
pub const fn looks_in_vain(word: u64) -> u64 {
    (word / ONE_IN_VAIN) & 0xff
}

/// First word, number of frames and end of an entry's second word; what makes no sense is `None`.
pub const fn place(word: u64) -> Option<(usize, usize, u8)> {
    let (first, frames) = ((word & 0xffff_ffff) as usize, (word >> 32 & 0xff) as usize);
    let sound = word >> 63 == 1 && frames <= MAX_FRAMES && first + frames <= STACK_WORDS;
    if sound { Some((first, frames, (word >> 40 & 0xff) as u8)) } else { None }
}

/// Which entries a stack with this hash can have, in the order in which they are tried.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "any bits of the hash will do")]
pub const fn entry(hash: u64, attempt: usize) -> usize {
    if attempt < PROBES {
        ((hash >> 7) as usize).wrapping_add(attempt) & (NEAR - 1)
    } else {
        NEAR + (((hash >> 27) as usize).wrapping_add(attempt) & (FAR - 1))
    }
}

/// The hash of no words.
pub const HASH_START: u64 = 0;
/// What the hash is multiplied by for each frame: odd, so that nothing is lost.
pub const HASH_BASE: u64 = 0x9fb2_1c65_1e98_df25;

/// The hash of no frames, in an epoch of the tables: the same addresses may be other code in another
/// one ([`crate::unwind::EPOCH_AT`]).
pub const fn hash_start(epoch: u64) -> u64 {
    epoch.wrapping_mul(0xa076_1d64_78bd_642f)
}

/// The part of one frame.
pub const fn hash_of(frame: u64) -> u64 {
    (frame ^ frame >> 29).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31)
}

/// The hash with one more frame, further up. It is a polynomial, so that the hash of two parts of a
/// stack can be made of theirs.
pub const fn hash_step(hash: u64, frame: u64) -> u64 {
    hash.wrapping_mul(HASH_BASE).wrapping_add(hash_of(frame))
}

/// The hash of a whole stack, never 0: how many frames there are and why it ends are a part of it.
pub const fn hash_end(hash: u64, frames: usize, end: End) -> u64 {
    hash_words(hash, frames, end as u8)
}

/// The same of any words.
pub const fn hash_words(hash: u64, frames: usize, end: u8) -> u64 {
    let hash = hash ^ ((frames as u64) << 8 | end as u64).wrapping_mul(HASH_BASE);
    ((hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93)) | 1
}
