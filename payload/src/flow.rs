//! Counting blocks by their size, where the payload was built for it: in a build of its own, so that
//! nobody else pays for the question.
//!
//! The size is what the allocator of glibc wrote before the block. The injector says of which functions
//! that is known to hold; blocks of others are none of ours.

use heapattach_abi::{flow, kind::HookKind};

use crate::{arch, cells::Cells, frame::Frame, row::Row};

/// Whether this build counts.
pub(crate) const IS_ON: bool = cfg!(heapattach_flow);

/// The lowest bits of the word before a block are flags.
const FLAGS: u64 = flow::STEP - 1;

/// Whether the call is one whose blocks have a size before them.
pub(crate) fn counts(frame: &Frame, cells: &Cells) -> bool {
    IS_ON
        && matches!(
            frame.kind(),
            Some(
                HookKind::Free
                    | HookKind::Malloc
                    | HookKind::Calloc
                    | HookKind::Realloc
                    | HookKind::Memalign
                    | HookKind::PosixMemalign
            )
        )
        && cells.second(frame.hook()) == flow::COUNTS
}

/// A block was handed out, if one was.
pub(crate) fn came(cells: &Cells, row: &Row, block: u64) {
    if block != 0 {
        row.count_chunk(cells, chunk(block), false, 1);
    }
}

/// A block is about to be given back; answers its chunk, for [`stayed`].
pub(crate) fn goes(cells: &Cells, row: &Row, block: u64) -> u64 {
    if block == 0 {
        return 0;
    }
    let chunk = chunk(block);
    row.count_chunk(cells, chunk, true, 1);
    chunk
}

/// It was not given back after all.
pub(crate) fn stayed(cells: &Cells, row: &Row, chunk: u64) {
    if chunk != 0 {
        row.count_chunk(cells, chunk, true, 1_u64.wrapping_neg());
    }
}

/// The word before a block of glibc's is the allocator's own, and mapped.
fn chunk(block: u64) -> u64 {
    arch::read(block.wrapping_sub(8)) & !FLAGS
}
