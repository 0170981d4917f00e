//! What happened in the target, one thing at a time and in its true order: the only form in which
//! records of the ring leave this crate. Every number in it was checked to be possible, not to be
//! true: the target can write what it likes.

use crate::addr::RemoteAddr;

/// A call stack, by its number in the session's table of stacks; 0 is the unknown one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

/// Where an event comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The ring, if only one thread writes to it; 0 where that is not known.
    pub ring: u8,
    /// Another event of the same call came before, or it is a part of another call.
    pub continues: bool,
    /// It does not fail: no [`What::Restored`] follows.
    pub is_final: bool,
}

/// One thing that happened. `stamp` numbers all recorded things of a session; no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number.
    pub stamp: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// What it was.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A block of the heap was allocated. Its stamp is its name from here on.
    Allocated {
        /// Where it begins.
        at: RemoteAddr,
        /// The bytes asked for.
        size: u64,
        /// Who asked.
        stack: StackId,
        /// The mean distance between samples, in bytes, that it was taken with: a block of at least
        /// this size is always taken, a smaller one with the probability `1 - exp(-size/interval)`.
        /// 0 and 1 mean that every block is.
        interval: u64,
    },
    /// A block is about to be freed.
    Freed {
        /// Where it begins.
        at: RemoteAddr,
        /// The stamp of its allocation; `None` where only its address is known, because every
        /// block is recorded, and it may be older than the session.
        block: Option<u64>,
    },
    /// A range of pages was mapped; whatever of ours was mapped there is no more.
    Mapped {
        /// Where it begins.
        at: RemoteAddr,
        /// Its length in bytes, as asked for.
        length: u64,
        /// Who asked.
        stack: StackId,
    },
    /// A range of pages is about to be unmapped; it may be a part of one mapping, or many.
    Unmapped {
        /// Where it begins.
        at: RemoteAddr,
        /// Its length in bytes, as asked for.
        length: u64,
        /// Who asked, the call alone; none, unless everything is recorded.
        stack: StackId,
    },
    /// The heap of brk ends elsewhere.
    Broke {
        /// Where.
        end: RemoteAddr,
        /// Who asked.
        stack: StackId,
    },
    /// Pages stay mapped, and the kernel may free what they hold.
    Discarded {
        /// Where they begin.
        at: RemoteAddr,
        /// Their length in bytes.
        length: u64,
        /// Who asked.
        stack: StackId,
    },
    /// What an earlier `Freed` or `Unmapped` announced did not happen: the call failed.
    Restored {
        /// The stamp of that event.
        announced: u64,
    },
}
