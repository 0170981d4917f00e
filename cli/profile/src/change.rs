//! What an event means, once it is known which block or which pages it was about: all that sums are
//! made of, and all that a recording holds.

use crate::{
    block::{Kind, RowId},
    tick::Tick,
};

/// Something happened to blocks or pages of which we know whose they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A block was allocated.
    Allocated {
        /// Size, row and sampling of the block.
        kind: Kind,
        /// Whether we will see it go.
        kept: bool,
        /// Whether `realloc` gave it for an older one.
        exchanged: bool,
    },
    /// A block was freed.
    Freed {
        /// Size, row and sampling of the block.
        kind: Kind,
        /// When it was allocated.
        birth: Tick,
    },
    /// A block that was reported as freed was not: the call failed.
    Restored {
        /// Size, row and sampling of the block.
        kind: Kind,
        /// When it was allocated.
        birth: Tick,
        /// When it seemed to be freed.
        death: Tick,
    },
    /// Pages were mapped.
    Mapped {
        /// The stack and thread that asked.
        row: RowId,
        /// Their size.
        bytes: u64,
        /// Whether we will see them go.
        kept: bool,
    },
    /// Pages were unmapped.
    Unmapped {
        /// The stack and thread that had mapped them.
        row: RowId,
        /// Their size.
        bytes: u64,
        /// When they were mapped; recordings of older versions do not tell.
        birth: Option<Tick>,
    },
    /// Pages that seemed to be unmapped are not.
    Remained {
        /// The stack and thread that had mapped them.
        row: RowId,
        /// Their size.
        bytes: u64,
        /// When they were mapped; recordings of older versions do not tell.
        birth: Option<Tick>,
    },
}

impl Change {
    /// The row of the block or pages.
    pub fn row(&self) -> RowId {
        match *self {
            Self::Allocated { kind, .. }
            | Self::Freed { kind, .. }
            | Self::Restored { kind, .. } => kind.row,
            Self::Mapped { row, .. } | Self::Unmapped { row, .. } | Self::Remained { row, .. } => {
                row
            }
        }
    }
}

/// A receiver of all changes.
pub trait Journal {
    /// The next one.
    fn note(&mut self, change: &Change);
}

impl<J: Journal> Journal for Option<J> {
    fn note(&mut self, change: &Change) {
        if let Some(journal) = self {
            journal.note(change);
        }
    }
}

impl Journal for () {
    fn note(&mut self, _: &Change) {}
}
