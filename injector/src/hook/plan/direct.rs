//! Whether a module calls a function of its own without a slot: then slots do not see those calls.

use crate::hook::survey::mapping_of;
use heapattach_process::{addr::RemoteAddr, linker::Link, memory::Memory, proc::maps::Mapping};

/// No module has more code than this, all mappings together.
const SEARCHED: u64 = 256 << 20;
const PIECE: usize = 1 << 20;
/// The longest instruction that is looked for.
const OVERLAP: usize = 8;

/// Whether code of the module of `link` leads to `function`, one of its own: by a call, a jump, or by
/// taking its address. Bytes that only look like it may say so, too; they do once in very many modules,
/// and then a doubt is told for nothing.
pub(super) fn leads_to(
    memory: &Memory,
    maps: &[Mapping<'_>],
    link: &Link,
    function: RemoteAddr,
) -> bool {
    let Some(own) = mapping_of(maps, link) else { return false };
    let is_code = |m: &&Mapping<'_>| (m.inode, m.device) == (own.inode, own.device) && m.executable;
    let mut left = SEARCHED;
    let mut bytes = vec![0; PIECE + OVERLAP];
    for mapping in maps.iter().filter(is_code) {
        let length = mapping.range.end.offset_from(mapping.range.start).unwrap_or(0).min(left);
        left -= length;
        let mut at = 0;
        while at < length {
            let most = usize::try_from(length - at).unwrap_or(PIECE).min(bytes.len());
            let start = mapping.range.start.offset(at);
            let Ok(read) = memory.read_some(start, &mut bytes[..most]) else { break };
            if is_led(&bytes[..read], start.get(), function.get()) {
                return true;
            }
            at += PIECE as u64;
        }
    }
    false
}

/// Whether one of these instructions at `start` leads to `function`.
fn is_led(code: &[u8], start: u64, function: u64) -> bool {
    let short = code.windows(2).zip(0_u64..).any(|(jump, offset)| {
        let &[0xeb, distance] = jump else { return false };
        let next = start.wrapping_add(offset + 2);
        next.wrapping_add_signed(distance.cast_signed().into()) == function
    });
    short || is_led_far(code, start, function)
}

fn is_led_far(code: &[u8], start: u64, function: u64) -> bool {
    code.windows(4).zip(0_u64..).skip(1).any(|(field, offset)| {
        let &[a, b, c, d] = field else { return false };
        let next = start.wrapping_add(offset + 4);
        let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
        next.wrapping_add_signed(distance) == function && is_branch(code, offset)
    })
}

/// Whether what stands before a distance makes it one: `call`, `jmp`, `jcc`, `lea r, [rip + x]`.
fn is_branch(code: &[u8], offset: u64) -> bool {
    let before = |back: usize| {
        let at = usize::try_from(offset).ok().and_then(|offset| offset.checked_sub(back));
        at.and_then(|at| code.get(at)).copied().unwrap_or(0)
    };
    let (second, first) = (before(2), before(1));
    matches!(first, 0xe8 | 0xe9)
        || second == 0x0f && first & 0xf0 == 0x80
        || second == 0x8d && first & 0xc7 == 0x05
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_jumps_and_addresses_taken_are_seen() {
        // Each ends at 0x1010, and leads to 0x2000.
        for start in [&[0xe8][..], &[0xe9], &[0x0f, 0x84], &[0x48, 0x8d, 0x3d], &[0x4c, 0x8d, 0x05]]
        {
            let mut code = vec![0x90; 12 - start.len()];
            code.extend(start);
            code.extend(0xff0_i32.to_le_bytes());
            code.push(0x90);
            assert!(is_led(&code, 0x1000, 0x2000), "{start:x?}");
            assert!(!is_led(&code, 0x1000, 0x2001) && !is_led(&code, 0x1001, 0x2000));
        }
        // mov eax, [rip + x] reads its bytes.
        let mut code = vec![0x90; 10];
        code.extend([0x8b, 0x05]);
        code.extend(0xff0_i32.to_le_bytes());
        assert!(!is_led(&code, 0x1000, 0x2000));
        assert!(is_led(&[0x90, 0xeb, 0xfd], 0x1000, 0x1000), "a short jump");
        assert!(!is_led(&[0xe8, 1], 0, 7) && !is_led(&[], 0, 0));
    }
}
