//! The section for x86-64: descriptor, hooks, cells.
//!
//! # Safety
//! The hooks are assembly, in `x86_64.s`, which says what it promises. As a Rust function they are
//! only a name for the bytes: the first ones are the descriptor, so it must never be called.
#![allow(unsafe_code)]

use core::{arch::naked_asm, mem::offset_of};

use heapattach_abi::{
    control, flow, image, index,
    kind::{HookKind, MAX_HOOKS},
    row, samples,
};

use crate::{
    frame::{FRAME_BYTES, Frame},
    hooks,
};

/// The start of the section. **Not a function**: data first, to be copied and mapped.
///
/// # Safety
/// Must not be called.
// One naked function instead of `global_asm!`: rustc exports it and keeps it at the link, which
// it does for no symbol that only the assembler knows.
// Rust 1.88 takes such a function for a block of assembly that may be repeated, whose labels must be numbers.
// It stands here once; and its `1f` leads forward, which cannot be read as a binary number.
#[allow(named_asm_labels, binary_asm_labels)]
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".heapattach")]
pub unsafe extern "C" fn heapattach_payload() {
    naked_asm!(
        include_str!("x86_64.s"),
        ENTER = sym hooks::enter,
        LEAVE = sym hooks::leave,
        MAGIC = const image::MAGIC,
        VERSION = const image::VERSION,
        MAX_HOOKS = const MAX_HOOKS,
        FREE_KIND = const HookKind::Free as u8,
        MALLOC_KIND = const HookKind::Malloc as u8,
        CALLOC_KIND = const HookKind::Calloc as u8,
        REALLOC_KIND = const HookKind::Realloc as u8,
        MEMALIGN_KIND = const HookKind::Memalign as u8,
        POSIX_MEMALIGN_KIND = const HookKind::PosixMemalign as u8,
        MAP_KIND = const HookKind::Map as u8,
        UNMAP_KIND = const HookKind::Unmap as u8,
        REMAP_KIND = const HookKind::Remap as u8,
        NEW_KIND = const HookKind::New as u8,
        CHOSEN_KIND = const HookKind::Chosen as u8,
        FREE_FIRST = const HookKind::Free.first_hook(),
        FREE_HOOKS = const HookKind::Free.hooks(),
        MALLOC_FIRST = const HookKind::Malloc.first_hook(),
        MALLOC_HOOKS = const HookKind::Malloc.hooks(),
        CALLOC_FIRST = const HookKind::Calloc.first_hook(),
        CALLOC_HOOKS = const HookKind::Calloc.hooks(),
        REALLOC_FIRST = const HookKind::Realloc.first_hook(),
        REALLOC_HOOKS = const HookKind::Realloc.hooks(),
        MEMALIGN_FIRST = const HookKind::Memalign.first_hook(),
        MEMALIGN_HOOKS = const HookKind::Memalign.hooks(),
        POSIX_MEMALIGN_FIRST = const HookKind::PosixMemalign.first_hook(),
        POSIX_MEMALIGN_HOOKS = const HookKind::PosixMemalign.hooks(),
        MAP_FIRST = const HookKind::Map.first_hook(),
        MAP_HOOKS = const HookKind::Map.hooks(),
        UNMAP_FIRST = const HookKind::Unmap.first_hook(),
        UNMAP_HOOKS = const HookKind::Unmap.hooks(),
        REMAP_FIRST = const HookKind::Remap.first_hook(),
        REMAP_HOOKS = const HookKind::Remap.hooks(),
        NEW_FIRST = const HookKind::New.first_hook(),
        NEW_HOOKS = const HookKind::New.hooks(),
        CHOSEN_FIRST = const HookKind::Chosen.first_hook(),
        CHOSEN_HOOKS = const HookKind::Chosen.hooks(),
        INDEX_HASH_MUL = const index::HASH_MUL,
        // The hash, already multiplied by the size of an entry: one shift and one mask.
        INDEX_SHIFT = const index::HASH_SHIFT - index::ENTRY_BYTES.ilog2(),
        INDEX_MASK = const (index::BUCKETS - 1) * index::ENTRY_BYTES,
        ENTRY_KEY = const offset_of!(index::Entry, key),
        ENTRY_ROW = const offset_of!(index::Entry, row),
        THRESHOLD = const row::THRESHOLD,
        COUNTDOWN = const row::COUNTDOWN,
        COUNTS = const row::COUNTS,
        FILTER_SHIFT = const samples::GRANULE_SHIFT,
        FILTER_MASK = const samples::FILTER_BYTES - 1,
        IS_FLOW = const crate::flow::IS_ON as u8,
        FLOW_COUNTS = const flow::COUNTS,
        FLOW_FINE = const flow::FINE,
        FLOW_BIAS = const flow::BIAS * flow::CLASS_BYTES,
        FLOW_LAST = const (flow::CLASSES - 1) * flow::CLASS_BYTES,
        FLOW = const row::FLOW,
        BUSY = const row::BUSY,
        REGION = const control::REGION,
        FRAME_BYTES = const FRAME_BYTES,
        FRAME_RCX = const offset_of!(Frame, rcx),
        FRAME_RDX = const offset_of!(Frame, rdx),
        FRAME_RSI = const offset_of!(Frame, rsi),
        FRAME_RDI = const offset_of!(Frame, rdi),
        FRAME_R8 = const offset_of!(Frame, r8),
        FRAME_R9 = const offset_of!(Frame, r9),
        FRAME_RBP = const offset_of!(Frame, rbp),
        FRAME_CALL = const offset_of!(Frame, call),
        FRAME_ROW = const offset_of!(Frame, row),
        FRAME_R10 = const offset_of!(Frame, r10),
        FRAME_R11 = const offset_of!(Frame, r11),
        FRAME_FLAGS = const offset_of!(Frame, flags),
        FRAME_RAX = const offset_of!(Frame, rax),
        FRAME_TARGET = const offset_of!(Frame, target),
    )
}

// The hooks multiply the number of a hook by 16.
const _: () = assert!(row::COUNT_BYTES == 16);
