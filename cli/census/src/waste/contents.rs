//! What the bytes of a block are: zeroes, text, or others, and how far they reach.

use std::time::Instant;

use crate::{Block, Window};

use super::fingerprint::{Fingerprint, Keys};

/// So much is read at once.
pub(super) const WINDOW: usize = 1 << 20;
const STEP: u64 = WINDOW as u64;
/// A shorter text is compared with all that is in its block: there may be more in it than text.
const SHORTEST: usize = 16;
/// What an allocator adds at most to have sizes in steps of 16; glibc adds no more.
const PADDING: usize = 15;

/// What a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Zeroes alone.
    Zeroes,
    /// Text up to a zero, with no room for more than padding behind it: a number for the text.
    Text(u64),
    /// A number for all bytes; and how many zeroes they end in.
    Bytes(u64, u64),
}

/// Looks at a block; none if it cannot be read, or not in time.
pub(super) fn of(
    block: Block,
    window: &mut Window<'_, '_>,
    keys: Keys,
    end: Instant,
) -> Option<Contents> {
    if block.size <= STEP {
        let bytes = window.bytes(block.at, usize::try_from(block.size).ok()?)?;
        if let Some(text) = text(bytes) {
            let mut print = Fingerprint::new(keys);
            print.add(0, text);
            return Some(Contents::Text(print.finish(text.len() as u64, 1)));
        }
    }
    let (mut print, mut offset, mut used) = (Fingerprint::new(keys), 0, 0);
    while offset < block.size {
        let length = STEP.min(block.size - offset);
        let bytes = window.bytes(block.at.checked_add(offset)?, usize::try_from(length).ok()?)?;
        let last = print.add(offset, bytes) as u64;
        used = if last > 0 { offset + last } else { used };
        offset += length;
        if offset < block.size && Instant::now() > end {
            return None;
        }
    }
    Some(match used {
        0 => Contents::Zeroes,
        used => Contents::Bytes(print.finish(block.size, 0), block.size - used),
    })
}

/// The text that a block has, if it has nothing else: what follows its end is padding, and may be anything.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    let least = bytes.len().saturating_sub(PADDING + 1).max(SHORTEST);
    // Most blocks that are no text are told by one of these.
    let head = bytes.get(..least)?;
    if !head.iter().all(is_printable) {
        return None;
    }
    let end = least + bytes[least..].iter().position(|&byte| byte == 0)?;
    let is_text = bytes[least..end].iter().all(is_printable);
    std::str::from_utf8(&bytes[..end]).is_ok_and(|_| is_text).then_some(&bytes[..end])
}

fn is_printable(byte: &u8) -> bool {
    (0x20..0x7f).contains(byte) || *byte >= 0x80 || b"\t\n\r".contains(byte)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{State, synthetic::Synthetic};

    const HEAP: u64 = 0x80_0000;

    fn contents(bytes: &[u8], size: u64, keys: Keys) -> Option<Contents> {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + (4 << 20));
        memory.write_bytes(HEAP, bytes);
        let moment = memory.moment();
        let mut window = Window::new(&moment, 0..u64::MAX, WINDOW);
        let block = Block { at: HEAP, size, state: State::Used, arena: 0, class: 0 };
        of(block, &mut window, keys, Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn text_is_the_same_whatever_lies_in_the_padding_behind_it() {
        let keys = Keys::random();
        let of = |bytes: &[u8], size| contents(bytes, size, keys);
        let one = of(b"a path that is long enough\0xyz", 40);
        assert!(matches!(one, Some(Contents::Text(_))), "{one:?}");
        assert_eq!(of(b"a path that is long enough\0abcdefgh", 40), one);
        assert_eq!(of(b"a path that is long enough\0", 32), one);
        assert_ne!(of(b"a path that is long enougH\0xyz", 40), one);
        // There is room for something else; or it is no text.
        for (bytes, size) in [
            (&b"a path that is long enough\0xyz"[..], 56),
            (b"a path\0xyz", 24),
            (b"a path that is\x01long enough\0", 32),
            (b"a path that has no end anywhere.", 32),
        ] {
            assert!(matches!(of(bytes, size), Some(Contents::Bytes(..))), "{bytes:?}");
        }
    }

    #[test]
    fn zeroes_alone_and_zeroes_at_the_end_are_told_in_blocks_of_any_length() {
        let keys = Keys::random();
        for size in [24, 4096, 1 << 20, (3 << 20) + 40] {
            assert_eq!(contents(b"", size, keys), Some(Contents::Zeroes));
            let Some(Contents::Bytes(_, tail)) = contents(b"\x01\x02\x03", size, keys) else {
                panic!("bytes");
            };
            assert_eq!(tail, size - 3);
        }
        assert_eq!(contents(b"", 5 << 20, keys), None, "it is not all mapped");
    }
}
