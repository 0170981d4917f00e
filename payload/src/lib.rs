//! The code that runs inside another process.
//!
//! Nothing here is linked into the target: the injector maps the bytes of one section
//! ([`heapattach_abi::image`]), writes a few addresses into its cells and leads the allocation
//! functions to its hooks.
//!
//! ```text
//! entry or slot -> hook (section/arch/x86_64.s) -- nearly always --> the original, by a jump
//!                    | a sample, a block that may be one, pages, a thread that is not known yet
//!                    v
//!                  hooks::enter -> row, sample, table    what is to be recorded
//!                    |             stack (unwind), ring  free: before the original
//!                    v
//!                  the original; hooks::leave            malloc: after it
//! ```
//!
//! Rules for every line of it: no allocation, no lock, no import, no call into libc; `errno` and
//! every register, the vector ones too, as the caller left them; bounded time and at most 500
//! bytes of stack (1,200 for the moment in which code is not known yet); no frame while the original runs, but for calls that are recorded after it; never
//! a word on the target's files; never a panic; right after fork and vfork, in signal handlers,
//! before and after a thread's life.
//!
//! One exception: the build that counts blocks by size asks the allocator whose function was called how
//! large its block is, by a function of that allocator that takes no lock (`flow`).
//!
//! The crate is compiled twice: by cargo, so that tests, lints and documentation see it, and
//! with fixed flags and `--cfg heapattach_payload` by the build of the command, which embeds the
//! result.
#![no_std]
// `heapattach_payload` is set by the build of the command alone; cargo does not know it.
#![allow(unexpected_cfgs)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses are 64 bits wide here, and a checked conversion would need a way to panic"
)]

mod arch;
mod bounds;
mod cells;
mod cfi;
mod fast_path;
mod flow;
mod frame;
mod hooks;
mod kept_pages;
mod late;
mod memo;
mod nest;
mod notes;
mod probed_read;
mod proven_pages;
mod python;
mod readable;
mod ring;
mod room;
mod row;
mod rules;
mod sampling;
mod section;
mod shared_word;
mod stack;
mod stack_store;
mod table;
mod unwind;

const _: () = assert!(size_of::<usize>() == 8);

#[cfg(target_arch = "x86_64")]
pub use section::heapattach_payload;

#[cfg(heapattach_payload)]
mod panic;

/// Where this crate's sources lie, for the build that compiles them once more for the target.
#[cfg(not(heapattach_payload))]
pub const SOURCE_DIR: &str = env!("CARGO_MANIFEST_DIR");

/// The same for the contract.
#[cfg(not(heapattach_payload))]
pub use heapattach_abi::SOURCE_DIR as ABI_SOURCE_DIR;
