//! The section for x86-64: descriptor, hooks, cells.
//!
//! # Safety
//! Everything is assembly, in `x86_64.s`, which says what it promises. As a Rust function it is
//! only a name for the bytes: its first ones are the descriptor, so it must never be called.
#![allow(unsafe_code)]

use core::arch::naked_asm;

use heapattach_abi::{
    control, image,
    kind::{ArgKind, MAX_HOOKS},
    table,
};

/// The start of the section. **Not a function**: data first, to be copied and mapped.
///
/// # Safety
/// Must not be called.
// One naked function instead of `global_asm!`: rustc exports it and keeps it at the link, which
// it does for no symbol that only the assembler knows.
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".heapattach")]
pub unsafe extern "C" fn heapattach_payload() {
    naked_asm!(
        include_str!("x86_64.s"),
        MAGIC = const image::MAGIC,
        VERSION = const image::VERSION,
        MAX_HOOKS = const MAX_HOOKS,
        NONE_FIRST = const ArgKind::None.first_hook(),
        NONE_HOOKS = const ArgKind::None.hooks(),
        ARG0_FIRST = const ArgKind::Arg0.first_hook(),
        ARG0_HOOKS = const ArgKind::Arg0.hooks(),
        ARG1_FIRST = const ArgKind::Arg1.first_hook(),
        ARG1_HOOKS = const ArgKind::Arg1.hooks(),
        ARG2_FIRST = const ArgKind::Arg2.first_hook(),
        ARG2_HOOKS = const ArgKind::Arg2.hooks(),
        PRODUCT_FIRST = const ArgKind::Product.first_hook(),
        PRODUCT_HOOKS = const ArgKind::Product.hooks(),
        ENABLED = const control::ENABLED,
        DEADLINE_TSC = const control::DEADLINE_TSC,
        EXPIRED = const control::EXPIRED,
        ROW_BYTES = const table::ROW_BYTES,
        ROW_HASH_MUL = const table::ROW_HASH_MUL,
        // The hash, already multiplied by the size of a row: one shift and one mask.
        ROW_HASH_SHIFT = const 64 - table::ROW_BITS - table::ROW_BYTES.ilog2(),
        ROW_HASH_MASK = const (table::ROWS - 1) * table::ROW_BYTES,
        ROW_PROBES = const table::ROW_PROBES,
        ROW_KEY = const table::ROW_KEY,
        ROW_TICKS = const table::ROW_TICKS,
        ROW_OVERFLOW = const table::ROW_OVERFLOW,
        ROW_SITES = const table::ROW_SITES,
        TICKS = const table::TICKS,
        SITE_HASH_MUL = const table::SITE_HASH_MUL.cast_signed(),
        SITE_HASH_SHIFT = const 32 - table::SITE_BITS,
        SITE_BYTES = const table::SITE_BYTES,
        SITE_PROBES = const table::SITE_PROBES,
        SITE_CALLS = const table::SITE_CALLS,
        SITE_REQUESTED = const table::SITE_REQUESTED,
    )
}

const _: () = assert!(table::ROW_BYTES.is_power_of_two());
// The hooks multiply by 24 as by 3 and by 8, and the overflow cells by 16.
const _: () = assert!(table::SITE_BYTES == 24 && table::COUNT_BYTES == 16);
