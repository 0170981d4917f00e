//! A string object of the interpreter, out of a copy of its first bytes.

use super::layout::Layout;

/// Its text, as far as it was copied; `None` if it is none.
pub fn read(copy: &[u8], layout: &Layout) -> Option<String> {
    let word =
        |at: u64| Some(u64::from_le_bytes(*copy.get(usize::try_from(at).ok()?..)?.first_chunk()?));
    let length = usize::try_from(word(layout.header)?).ok()?;
    // Behind the length and a hash.
    let (kind, is_ascii) = kind(word(layout.header + 16)?)?;
    let start = if is_ascii { layout.ascii } else { layout.compact };
    let text = copy.get(usize::try_from(start).ok()?..)?;
    let whole = length.checked_mul(kind)?;
    let mut told = decode(&text[..whole.min(text.len())], kind);
    if whole > text.len() {
        told.push('\u{2026}');
    }
    Some(told)
}

/// Bytes of a character, and whether it is ASCII; `None` if the text does not follow its head.
fn kind(state: u64) -> Option<(usize, bool)> {
    // How far a string is interned comes first, in two bits or, of late, in bytes of its own.
    [2, 16, 8].into_iter().find_map(|shift| {
        let state = state >> shift;
        let (kind, is_compact, is_ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
        let is_sound = matches!(kind, 1 | 2 | 4) && is_compact && (!is_ascii || kind == 1);
        Some((usize::try_from(kind).ok()?, is_ascii)).filter(|_| is_sound)
    })
}

fn decode(bytes: &[u8], kind: usize) -> String {
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
    use super::{super::layout::tests::of_3_12, *};

    fn string(length: u64, state: u32, text: &[u8]) -> Vec<u8> {
        let layout = of_3_12();
        let mut copy = vec![0; 56];
        copy[16..24].copy_from_slice(&length.to_le_bytes());
        copy[32..36].copy_from_slice(&state.to_le_bytes());
        let is_ascii = state >> 2 & 16 != 0;
        copy.truncate(
            usize::try_from(if is_ascii { layout.ascii } else { layout.compact }).unwrap(),
        );
        copy.extend(text);
        copy
    }

    #[test]
    fn characters_have_one_two_or_four_bytes() {
        let read = |copy: Vec<u8>| read(&copy, &of_3_12()).unwrap();
        assert_eq!(read(string(3, 0b1_1001 << 2 | 1, b"abc")), "abc");
        assert_eq!(read(string(4, 0b0_1001 << 2, b"caf\xe9")), "caf\u{e9}");
        assert_eq!(read(string(2, 0b0_1010 << 2, &[0x3b, 0x26, 0, 0xd8])), "\u{263b}\u{fffd}");
        assert_eq!(read(string(1, 0b0_1100 << 2, &[0x0d, 0xf4, 1, 0])), "\u{1f40d}");
    }

    #[test]
    fn what_was_not_copied_is_told_as_missing() {
        let copy = string(u64::MAX, 0b1_1001 << 2, b"abc");
        assert_eq!(read(&copy, &of_3_12()).unwrap(), "abc\u{2026}");
        assert_eq!(read(&copy[..20], &of_3_12()), None);
        assert_eq!(read(&string(3, 0, b"abc"), &of_3_12()), None);
    }

    #[test]
    fn a_state_is_understood_in_every_version() {
        for shift in [2, 8, 16] {
            assert_eq!(kind(0b1_1001 << shift | 1), Some((1, true)));
        }
        assert_eq!(kind(0), None);
    }
}
