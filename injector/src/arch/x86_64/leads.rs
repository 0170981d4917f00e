//! Instructions that lead to a place by a distance.

/// The longest of them.
pub const LONGEST_LEAD: usize = 8;

/// Whether one of the instructions in `code`, which lies at `start`, leads to `function`: by a call, a
/// jump, or by taking its address. Bytes that only look like it may say so, too.
pub fn leads_to(code: &[u8], start: u64, function: u64) -> bool {
    let short = code.windows(2).zip(0_u64..).any(|(jump, offset)| {
        let &[0xeb, distance] = jump else { return false };
        let next = start.wrapping_add(offset + 2);
        next.wrapping_add_signed(distance.cast_signed().into()) == function
    });
    short || leads_far(code, start, function)
}

fn leads_far(code: &[u8], start: u64, function: u64) -> bool {
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
            assert!(leads_to(&code, 0x1000, 0x2000), "{start:x?}");
            assert!(!leads_to(&code, 0x1000, 0x2001) && !leads_to(&code, 0x1001, 0x2000));
        }
        // mov eax, [rip + x] reads its bytes.
        let mut code = vec![0x90; 10];
        code.extend([0x8b, 0x05]);
        code.extend(0xff0_i32.to_le_bytes());
        assert!(!leads_to(&code, 0x1000, 0x2000));
        assert!(leads_to(&[0x90, 0xeb, 0xfd], 0x1000, 0x1000), "a short jump");
        assert!(!leads_to(&[0xe8, 1], 0, 7) && !leads_to(&[], 0, 0));
    }
}
