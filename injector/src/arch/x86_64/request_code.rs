//! What hears valgrind's client requests: in `request_code.s`, assembled into this program and copied from there
//! into a home. It is never run here.
//!
//! # Safety
//! Two symbols of the assembly are taken as the bounds of read-only bytes.
#![allow(unsafe_code)]

use std::{arch::global_asm, slice};

use heapattach_abi::frame::{TOLD_CODE, TOLD_STACK};
use heapattach_process::addr::RemoteAddr;

/// Where its words are, from its first byte on: the first ones are addresses of hooks.
#[derive(Clone, Copy, Debug)]
pub enum RequestWord {
    /// For blocks that the program allocates.
    Allocated = 0,
    /// For blocks that it frees.
    Freed = 8,
    /// For the pool that the thread's next block is in.
    Pool = 16,
    /// For pools whose blocks are all freed.
    Destroyed = 24,
    /// For checks that the program requests.
    Checked = 32,
    /// Whether a session watches, and the process's own number in the upper half.
    Watch = 40,
    /// How many checks have a result.
    Answered = 48,
    /// What the last one found: bytes that are leaked, possibly leaked, reachable and suppressed, then blocks.
    Found = 56,
    /// A hook, for what of a pool stays.
    Trimmed = 120,
    /// A hook, for pools that have another name from here on.
    Moved = 128,
}

const DATA_BYTES: usize = 160;
/// Numbers of what a check found.
pub const REQUEST_ANSWERS: usize = 8;
/// The bit of the watch word that says that checks are made, as in mailboxes.
const REQUEST_CHECKS: u64 = 2;
/// So many milliseconds a check is waited for.
const REQUEST_PATIENCE: u32 = 10_000;
const COMMON_AT: usize = DATA_BYTES;
/// Where a site's own part has the address behind the request, from where the common one returns to.
const BEHIND_AT: usize = 14;

/// The bytes of a site's own part.
pub const SITE_BYTES: usize = 32;
/// The bytes of a jump to anywhere: its last eight are where to.
pub const FAR_JUMP_BYTES: usize = 14;
/// What it begins with: `jmp [rip]`.
pub const FAR_JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
/// A short jump from the first byte of a request to behind it, over the rest.
pub const SKIP_REQUEST: [u8; 2] = [0xeb, 0x11];

// A call pushes the address that it returns to below them.
const _: () = assert!(TOLD_CODE == 8 && TOLD_STACK == 16);
const _: () =
    assert!(RequestWord::Found as usize + REQUEST_ANSWERS * 8 <= RequestWord::Trimmed as usize);

global_asm!(
    ".pushsection .rodata.heapattach_requests, \"a\", @progbits",
    ".balign 32",
    include_str!("request_code.s"),
    ".popsection",
    DATA_BYTES = const DATA_BYTES,
    BEHIND_AT = const BEHIND_AT,
    ALLOCATED = const RequestWord::Allocated as usize,
    FREED = const RequestWord::Freed as usize,
    POOL = const RequestWord::Pool as usize,
    DESTROYED = const RequestWord::Destroyed as usize,
    CHECKED = const RequestWord::Checked as usize,
    TRIMMED = const RequestWord::Trimmed as usize,
    MOVED = const RequestWord::Moved as usize,
    WATCH = const RequestWord::Watch as usize,
    ANSWERED = const RequestWord::Answered as usize,
    FOUND = const RequestWord::Found as usize,
    CHECKS = const REQUEST_CHECKS,
    PATIENCE = const REQUEST_PATIENCE,
    GETPID = const libc::SYS_getpid,
    POLL = const libc::SYS_poll,
);

unsafe extern "C" {
    static heapattach_requests: u8;
    static heapattach_requests_end: u8;
}

/// The words and the code that all sites have in common.
pub fn request_code() -> &'static [u8] {
    let (start, end) = (&raw const heapattach_requests, &raw const heapattach_requests_end);
    let length = end.addr() - start.addr();
    // SAFETY: both are labels of one read-only section, the second behind the first, and what lies
    // between them is the code.
    unsafe { slice::from_raw_parts(start, length) }
}

/// Where in it a hook goes on: one that allocates, and one of the others.
pub fn request_originals() -> [usize; 2] {
    let done = request_code().len() - 1;
    [done - 16, done]
}

/// The part of a site whose request ends before `behind`, at `at`, where the common code lies at `common`.
pub fn request_site(at: RemoteAddr, common: RemoteAddr, behind: RemoteAddr) -> [u8; SITE_BYTES] {
    let returns = at.get().wrapping_add(10);
    let target = common.get().wrapping_add(COMMON_AT as u64);
    // All of it lies in one home.
    #[allow(clippy::cast_possible_truncation)]
    let distance = target.wrapping_sub(returns) as u32;
    let mut part = [0; SITE_BYTES];
    part[..5].copy_from_slice(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    part[5] = 0xe8;
    part[6..10].copy_from_slice(&distance.to_le_bytes());
    part[10..18].copy_from_slice(&[0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0]);
    part[18..24].copy_from_slice(&FAR_JUMP);
    part[24..].copy_from_slice(&behind.get().to_le_bytes());
    part
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;

    fn mnemonics(code: &[u8], at: u64) -> Vec<(Mnemonic, u64)> {
        let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
        let mut all = Vec::new();
        while decoder.can_decode() {
            let one = decoder.decode();
            all.push((one.mnemonic(), one.near_branch_target()));
        }
        all
    }

    #[test]
    fn a_sites_part_calls_the_common_one_and_goes_on_behind_the_request() {
        let (at, common) = (RemoteAddr::new(0x5000), RemoteAddr::new(0x4000));
        let part = request_site(at, common, RemoteAddr::new(0x1234_5678));
        let told = mnemonics(&part[..24], at.get());
        let names: Vec<_> = told.iter().map(|(mnemonic, _)| *mnemonic).collect();
        assert_eq!(names, [Mnemonic::Lea, Mnemonic::Call, Mnemonic::Lea, Mnemonic::Jmp]);
        assert_eq!(told[1].1, 0x4000 + COMMON_AT as u64);
        assert_eq!(10 + BEHIND_AT, 24, "where the common part reads it");
        assert_eq!(part[24..], 0x1234_5678_u64.to_le_bytes());
    }

    #[test]
    fn hooks_go_on_at_code_that_returns() {
        let code = request_code();
        let [allocated, done] = request_originals();
        assert_eq!(code[allocated..allocated + 4], [0x48, 0x89, 0xf8, 0xc3]);
        assert_eq!(code[done..], [0xc3]);
        assert_eq!(code[COMMON_AT], 0x9c, "pushfq");
        assert_eq!(mnemonics(&SKIP_REQUEST, 0), [(Mnemonic::Jmp, 19)]);
    }
}
