//! What is hooked, and how a function's entry is patched, as arithmetic: an ELF file's bytes in, a plan
//! out. No process is touched here, nothing is read from disk, and nothing is trusted: a hostile file
//! gives a refusal.
//!
//! ```
//! use heapattach_entry::{Family, functions};
//!
//! // The functions that are known by name; others are told by the user ([`user_hooks`]).
//! let malloc = functions::by_name(b"malloc").expect("the first of all");
//! assert_eq!(malloc.family, Family::Heap);
//! let hook = heapattach_entry::user_hooks::parse("my_alloc=malloc")?;
//! # Ok::<(), heapattach_entry::user_hooks::FormError>(())
//! ```
//!
//! A function is hooked at its entry by five bytes, `jmp hook`. Where the first instructions went:
//!
//! ```text
//!        entry                                      trampoline
//!  +---------------------+    jmp hook    +-------------------------------+
//!  | endbr64   (stays)   |                | the window's instructions,    |
//!  | jmp hook  (5 bytes) | .............> |  branches and rip operands    |
//!  | rest of the window  |   hook jumps   |  made to fit their new home   |
//!  | ...the function...  | <............. | jmp to the end of the window  |
//!  +---------------------+                +-------------------------------+
//! ```
//!
//! The *window* is the shortest run of whole instructions that has room for the jump. `window`
//! cuts it, `intrusion` proves that no code jumps into the middle of it, and what
//! cannot be proved is a [`Refusal`]. An allocator's own direct calls to itself (realloc's of malloc
//! and free) would be counted a second time: those are the [`Bypass`]es, whose branch leads past
//! the hook. `closure` finds the functions that are part of the allocator.
//!
//! The order of work for a caller: [`analyse`] every module that defines hooked functions; compare
//! memory with [`EntryPlan::window_bytes`] and [`Bypass::old`]; choose a trampoline of
//! [`TRAMPOLINE_MAX`] bytes for every plan kept; write what [`EntryPlan::relocate`] returns; with
//! everything stopped, ask [`KeepOut`] about each pc and stack word; write [`EntryPlan::patch`] and
//! [`Bypass::rewrite`].

use heapattach_process::addr::ImageAddr;

mod analysis;
mod arch;
mod closure;
mod draft;
mod function_ranges;
pub mod functions;
#[cfg(test)]
mod hostile_tests;
mod image;
mod intrusion;
mod keep_out;
#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod model;
mod module_analysis;
mod refusal;
mod requests;
pub mod user_hooks;
mod zones;

pub use analysis::{Analysis, Entry};
pub use arch::{
    bypass::{Bypass, Callee},
    jump::TooFar,
    plan::{EntryPlan, RelocateError, TRAMPOLINE_MAX, build_tables},
};
pub use image::ImageError;
pub use keep_out::KeepOut;
pub use module_analysis::analyse;
pub use refusal::Refusal;
pub use requests::{REQUEST_BYTES, Requests, requests};

/// A function that is to be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooked<'a> {
    /// The name it was found by; several names may share an address.
    pub name: &'a str,
    /// Where the file says it begins.
    pub address: ImageAddr,
    /// How long it is, if a symbol says so; else 0.
    pub size: u64,
    /// What it allocates.
    pub family: Family,
    /// Its hook keeps the arithmetic flags; else it must write over them.
    pub keeps_flags: bool,
}

/// What a hooked function allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Blocks of a heap: malloc, free and their kin.
    Heap,
    /// Pages of the kernel: mmap, munmap, mremap.
    Map,
    /// What else is asked of the kernel: brk, sbrk, madvise, mprotect.
    Kernel,
}

/// What the module is to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A shared object: its own calls of the allocator by direct branch are internal, since all
    /// others go through the PLT.
    Library,
    /// The main program: every call of a statically linked allocator is a direct branch, so only
    /// those out of the allocator itself are internal.
    Executable,
}
