//! The table of lines of a code object, as 3.11 and later have it: entries of one or more bytes, the
//! first of which has its highest bit set, each for so many instructions.

/// The line of an instruction; `None` where the table says that it has none, or nonsense.
pub fn line(table: &[u8], first_line: u32, instruction: u32) -> Option<u32> {
    let (mut at, mut end, mut line) = (0, 0_u64, i64::from(first_line));
    while let Some(&head) = table.get(at) {
        at += 1;
        if head & 0x80 == 0 {
            return None;
        }
        end += u64::from(head & 7) + 1;
        let kind = head >> 3 & 15;
        line = line.checked_add(match kind {
            10..=12 => i64::from(kind) - 10,
            13 | 14 => signed(table, at)?,
            _ => 0,
        })?;
        if u64::from(instruction) < end {
            return if kind == 15 { None } else { u32::try_from(line).ok() };
        }
        // What else there is are columns.
        at += table[at..].iter().take_while(|&&byte| byte & 0x80 == 0).count();
    }
    None
}

/// A number in pieces of six bits, the lowest first, and its sign in the lowest one.
fn signed(table: &[u8], at: usize) -> Option<i64> {
    let (mut number, mut shift) = (0_u64, 0);
    for &byte in table.get(at..)? {
        number |= u64::from(byte & 0x3f).checked_shl(shift)?;
        shift += 6;
        if byte & 0x40 == 0 {
            let value = i64::try_from(number >> 1).ok()?;
            return Some(if number & 1 == 0 { value } else { -value });
        }
        if shift > 36 {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Two instructions of the first line, one of the next, three of two lines before, one of none.
    const TABLE: [u8; 11] = [
        0x80 | 1,
        0x11,
        0x80 | 11 << 3,
        1,
        2,
        0x80 | 13 << 3 | 2,
        0x05,
        0x80 | 15 << 3,
        0x80 | 14 << 3,
        0x44,
        0x01,
    ];

    #[test]
    fn lines_are_those_of_their_instructions() {
        let lines: Vec<_> = (0..9).map(|at| line(&TABLE, 10, at)).collect();
        let expected =
            [Some(10), Some(10), Some(11), Some(9), Some(9), Some(9), None, Some(43), None];
        assert_eq!(lines, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, first: u32, at: u32) {
            let _ = line(&bytes, first, at);
        }
    }
}
