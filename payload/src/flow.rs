//! Counting blocks by their size, where the payload was built for it: in a build of its own, so that
//! other builds do not pay for the question.
//!
//! The size is what the allocator of glibc wrote before the block, or what another allocator answers
//! that is asked for the size of its own block: after it was allocated, before it is freed. The
//! injector says of which functions either is known to hold; blocks of others are none of ours.

use core::sync::atomic::Ordering::Relaxed;

use heapattach_abi::{flow, kind::HookKind, region, row};

use crate::{arch, cells::Cells, frame::Frame, row::Row};

/// Whether this build counts.
pub(crate) const IS_ON: bool = cfg!(heapattach_flow);

/// The lowest bits of the word before a block are flags.
const FLAGS: u64 = flow::STEP - 1;
/// What is answered of a block that is the allocator's.
const OWNED: u32 = 1;

/// Whether the call is one whose blocks have a size that is known.
pub(crate) fn counts(frame: &Frame, cells: &Cells) -> bool {
    IS_ON && (has_head(frame, cells) || cells.sizer(frame.hook()).0 != 0)
}

/// Whether it stands before them.
fn has_head(frame: &Frame, cells: &Cells) -> bool {
    matches!(
        frame.kind(),
        Some(
            HookKind::Free
                | HookKind::Malloc
                | HookKind::Calloc
                | HookKind::Realloc
                | HookKind::Memalign
                | HookKind::PosixMemalign
        )
    ) && cells.second(frame.hook()) == flow::COUNTS
}

/// A block was allocated for a request of so many bytes, if one was.
pub(crate) fn came(frame: &Frame, cells: &Cells, row: &Row, block: u64, request: u64) {
    let Some(size) = size_of(frame, cells, row, block) else { return };
    row.count_chunk(cells, size, false, 1);
    // Blocks at round addresses may be larger than others of the same request.
    if !matches!(frame.kind(), Some(HookKind::Memalign | HookKind::PosixMemalign)) {
        note(cells, request, size, u64::from(has_head(frame, cells)));
    }
}

/// A block is about to be freed; answers its size, for [`stayed`].
pub(crate) fn goes(frame: &Frame, cells: &Cells, row: &Row, block: u64) -> u64 {
    let Some(size) = size_of(frame, cells, row, block) else { return 0 };
    row.count_chunk(cells, size, true, 1);
    size
}

/// It was not freed after all.
pub(crate) fn stayed(cells: &Cells, row: &Row, size: u64) {
    if size != 0 {
        row.count_chunk(cells, size, true, 1_u64.wrapping_neg());
    }
}

fn size_of(frame: &Frame, cells: &Cells, row: &Row, block: u64) -> Option<u64> {
    if block == 0 {
        return None;
    }
    let (sizer, owner) = cells.sizer(frame.hook());
    let size = match sizer {
        // The word before a block of glibc's is the allocator's own, and mapped.
        0 => arch::read(block.wrapping_sub(8)) & !FLAGS,
        sizer => asked(row, block, sizer, owner),
    };
    (size != 0).then_some(size)
}

/// What the allocator says. It may ask for memory itself where it is young, or the thread is: such a
/// block is not asked about, else there would be no end to it.
fn asked(row: &Row, block: u64, sizer: u64, owner: u64) -> u64 {
    let sizing = row.field(row::SIZING);
    // The shared row does not tell whose call it is; by then there are so many threads that the
    // allocator is not young.
    if !row.is_shared() {
        if sizing.get() != 0 {
            return 0;
        }
        sizing.set(1);
    }
    let is_owned = owner == 0 || arch::ask(owner, block) as u32 == OWNED;
    let size = if is_owned { arch::ask(sizer, block) } else { 0 };
    if !row.is_shared() {
        sizing.set(0);
    }
    size
}

/// Notes which size a request led to, if that is not known yet.
fn note(cells: &Cells, request: u64, size: u64, head: u64) {
    let class = flow::class(flow::chunk_of(request));
    let place = cells.region().at(region::SIZES_AT + class * 8);
    let known = place.word().load(Relaxed);
    let (least, greatest) = flow::sizes(known).unwrap_or((u64::MAX, 0));
    let head = head | known & flow::HAS_HEAD;
    let new = flow::pack_sizes(least.min(size), greatest.max(size), head);
    if new != known {
        // If another thread was faster, the next block will do.
        let _ = place.word().compare_exchange(known, new, Relaxed, Relaxed);
    }
}
