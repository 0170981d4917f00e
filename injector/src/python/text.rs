//! A string object of the interpreter.

use super::layout::Layout;
use crate::{addr::RemoteAddr, memory::Memory};

/// No honest name is longer; what is, is cut.
const LONGEST: u64 = 1024;

/// Its text; `None` if it is none.
pub fn read(memory: &Memory, layout: &Layout, at: RemoteAddr) -> Option<String> {
    let length = memory.word(at.checked_add(layout.header)?).ok()?.min(LONGEST);
    // Behind the length and a hash.
    let state = memory.word(at.checked_add(layout.header + 16)?).ok()?;
    let (kind, compact, ascii) = kind(state)?;
    if !compact {
        return None;
    }
    let start = at.checked_add(if ascii { layout.ascii } else { layout.compact })?;
    let mut bytes = vec![0; usize::try_from(length * kind).ok()?];
    memory.read(start, &mut bytes).ok()?;
    Some(decode(&bytes, kind))
}

/// Bytes of a character, whether the text follows its head, and whether it is ASCII.
fn kind(state: u64) -> Option<(u64, bool, bool)> {
    // How far a string is interned comes first, in two bits or, of late, in bytes of its own.
    [2, 16, 8].into_iter().find_map(|shift| {
        let state = state >> shift;
        let (kind, compact, ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
        let is_sound = matches!(kind, 1 | 2 | 4) && compact && (!ascii || kind == 1);
        is_sound.then_some((kind, compact, ascii))
    })
}

fn decode(bytes: &[u8], kind: u64) -> String {
    let letter = |code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    match kind {
        1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
        2 => {
            let (pairs, _) = bytes.as_chunks::<2>();
            pairs.iter().map(|pair| letter(u16::from_le_bytes(*pair).into())).collect()
        }
        _ => {
            let (words, _) = bytes.as_chunks::<4>();
            words.iter().map(|word| letter(u32::from_le_bytes(*word))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_have_one_two_or_four_bytes() {
        assert_eq!(decode(b"caf\xe9", 1), "caf\u{e9}");
        assert_eq!(decode(&[0x3b, 0x26, 0, 0xd8], 2), "\u{263b}\u{fffd}");
        assert_eq!(decode(&[0x0d, 0xf4, 1, 0], 4), "\u{1f40d}");
    }

    #[test]
    fn a_state_is_understood_in_every_version() {
        // Interned, one byte each, compact, ASCII.
        assert_eq!(kind(0b1_1001 << 2 | 1), Some((1, true, true)));
        assert_eq!(kind(0b1_1001 << 16 | 1), Some((1, true, true)));
        assert_eq!(kind(0b0_1010 << 2), Some((2, true, false)));
        assert_eq!(kind(0), None);
    }
}
