//! valgrind's client requests: five instructions that do nothing without it, and that a jump can stand in for.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};

use super::jump::is_near_branch;

/// `rol $3, %rdi; rol $13, %rdi; rol $61, %rdi; rol $51, %rdi; xchg %rbx, %rbx`.
pub(crate) const REQUEST: [u8; 19] = [
    0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33,
    0x48, 0x87, 0xdb,
];

/// Functions beyond this are not decoded.
const FUNCTION_MAX: usize = 1 << 20;

/// Where such bytes are in this code.
pub(crate) fn all_in(code: &[u8]) -> Vec<usize> {
    // The rarest of its bytes: most code has none of them.
    let rare = code.iter().enumerate().filter(|(_, byte)| **byte == REQUEST[7]);
    let starts = rare.filter_map(|(at, _)| at.checked_sub(7));
    starts.filter(|&at| code[at..].starts_with(&REQUEST)).collect()
}

/// Whether the function that lies at `start` comes to `site` as an instruction, and nowhere leads behind the
/// first byte of it.
pub(crate) fn is_whole(function: &[u8], start: u64, site: u64) -> bool {
    let window: Range<u64> = site + 1..site + REQUEST.len() as u64;
    if function.len() > FUNCTION_MAX {
        return false;
    }
    let mut decoder = Decoder::with_ip(64, function, start, DecoderOptions::NONE);
    let (mut is_met, mut inside) = (false, 0);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        is_met |= instruction.ip() == site;
        inside += usize::from(window.contains(&instruction.ip()));
        if !instruction.is_invalid()
            && is_near_branch(&instruction)
            && window.contains(&instruction.near_branch_target())
        {
            return false;
        }
    }
    is_met && inside == 4
}
