//! What stands in for LeakSanitizer's functions: in `lsan_functions.s`, assembled into this program and
//! copied from there into a stub page. It is never run here.
//!
//! # Safety
//! Two symbols of the assembly are taken as the bounds of read-only bytes.
#![allow(unsafe_code)]

use std::{arch::global_asm, slice};

use heapattach_process::spoken::Word;

/// Where its words are, from its first byte on.
#[derive(Clone, Copy, Debug)]
pub enum LsanWord {
    /// Whether a session watches, and the process's own number in the upper half.
    Watch = 0,
    /// The function munmap.
    Unmap = 8,
    /// The function that tells where errno is.
    Errno = 16,
    /// How many checks have a result.
    Answered = 24,
    /// Whether the last one found a leak.
    Leaked = 28,
}

const DATA_BYTES: usize = 32;
/// Each function begins so far behind the one before.
const ALIGN: usize = 32;
/// The bit of the first word that says that checks are made, as in mailboxes.
const LSAN_CHECKS: u64 = 2;
/// So many milliseconds a check is waited for.
const PATIENCE: u32 = 10_000;

global_asm!(
    ".pushsection .rodata.heapattach_lsan, \"a\", @progbits",
    ".balign 32",
    include_str!("lsan_functions.s"),
    ".popsection",
    DATA_BYTES = const DATA_BYTES,
    ALIGN = const ALIGN,
    WATCH = const LsanWord::Watch as usize,
    MUNMAP = const LsanWord::Unmap as usize,
    ERRNO = const LsanWord::Errno as usize,
    ANSWERED = const LsanWord::Answered as usize,
    LEAKED = const LsanWord::Leaked as usize,
    CHECKS = const LSAN_CHECKS,
    PATIENCE = const PATIENCE,
    BEGIN = const Word::Begin.number(),
    END = const Word::End.number(),
    IGNORE = const Word::Ignore.number(),
    ROOT = const Word::Root.number(),
    BYTES = const Word::Bytes.number(),
    NO_ROOT = const Word::NoRoot.number(),
    CHECK = const Word::Check.number(),
    GETPID = const libc::SYS_getpid,
    POLL = const libc::SYS_poll,
);

unsafe extern "C" {
    static heapattach_lsan: u8;
    static heapattach_lsan_end: u8;
}

/// Where the function of this number begins.
pub const fn lsan_function_at(number: usize) -> usize {
    DATA_BYTES + number * ALIGN
}

/// The words and the code.
pub fn lsan_code() -> &'static [u8] {
    let (start, end) = (&raw const heapattach_lsan, &raw const heapattach_lsan_end);
    let length = end.addr() - start.addr();
    // SAFETY: both are labels of one read-only section, the second behind the first, and what lies
    // between them is the code.
    unsafe { slice::from_raw_parts(start, length) }
}
