//! What Rust's collections keep in blocks: text with room and length, tables of a `HashMap`.

use super::forms::View;

/// A shorter text says too little.
const SHORTEST: u64 = 4;
/// A text is looked at so far.
const PIECE: u64 = 4096;
/// No larger table is looked at.
const MOST_SLOTS: u64 = 1 << 24;
/// Slots that are looked at together, whose control bytes are repeated behind the last.
const GROUP: u64 = 16;
/// Control bytes: nothing was there, something was there; others are in use.
const EMPTY: u8 = 0xff;
const DELETED: u8 = 0x80;

impl View<'_, '_> {
    /// The text of a `String`: room, address and length, or, of an older compiler, address, room and length; what is
    /// there is text.
    pub fn rust_text(&self, at: u64, with_older: bool) -> Option<u32> {
        let [first, second, length] = self.words(at)?;
        let (from, room) = match self.blocks.span().contains(&second) {
            true => (second, first),
            false if with_older => (first, second),
            false => return None,
        };
        if length < SHORTEST || length > room {
            return None;
        }
        let (number, size) = self.block(from)?;
        (self.is_room_of(room, size) && self.is_text(from, length)).then_some(number)
    }

    /// By words of pages that are kept: there may be millions of texts.
    fn is_text(&self, from: u64, length: u64) -> bool {
        let piece = usize::try_from(length.min(PIECE)).unwrap_or(0);
        let mut bytes = Vec::with_capacity(piece + 8);
        while bytes.len() < piece {
            let at = from.saturating_add(bytes.len() as u64);
            let Some(word) = self.moment.word(at) else { return false };
            let word = word.to_le_bytes();
            let own = &word[..(piece - bytes.len()).min(8)];
            // What is none mostly shows it in its first word.
            if own.iter().any(|byte| byte.is_ascii_control() && !byte.is_ascii_whitespace()) {
                return false;
            }
            bytes.extend_from_slice(own);
        }
        let text = match std::str::from_utf8(&bytes) {
            Ok(text) => text,
            // A letter that does not end with the piece.
            Err(error) if length > PIECE && error.error_len().is_none() => {
                let (text, _) = bytes.split_at(error.valid_up_to());
                std::str::from_utf8(text).unwrap_or_default()
            }
            Err(_) => return false,
        };
        !text.is_empty() && text.chars().all(|one| !one.is_control() || one.is_ascii_whitespace())
    }

    /// The table of a `HashMap`: the address of its control bytes, one less than the number of its slots, how many may
    /// still be used, and how many are; the control bytes say the same.
    pub fn rust_table(&self, at: u64) -> Option<u32> {
        let [control, mask, left, used] = self.words(at)?;
        let slots = mask.checked_add(1).filter(|slots| slots.is_power_of_two())?;
        let is_size = (4..=MOST_SLOTS).contains(&slots);
        if !is_size || used == 0 || left.checked_add(used)? > slots {
            return None;
        }
        let number = self.blocks.containing(control)?;
        let block = self.blocks.get(number);
        let values = control.checked_sub(block.at)?;
        let bytes = slots.checked_add(GROUP)?;
        let is_behind = values >= slots && control.is_multiple_of(GROUP);
        let end = values.checked_add(bytes)?;
        if !is_behind || !self.is_room_of(end, block.size) {
            return None;
        }
        // Seven eighths are used at most; of few, all but one.
        let most = if slots <= 8 { slots - 1 } else { slots / 8 * 7 };
        // Any number of words can lead to one table.
        self.steps(slots)?;
        let bytes = self.moment.bytes(control, usize::try_from(slots).ok()?)?;
        let count =
            |wanted: &dyn Fn(u8) -> bool| bytes.iter().filter(|byte| wanted(**byte)).count() as u64;
        let (full, deleted) = (count(&|byte| byte < DELETED), count(&|byte| byte == DELETED));
        let is_known = full + deleted + count(&|byte| byte == EMPTY) == slots;
        (is_known && full == used && left <= most.checked_sub(used)?).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use heapattach_reach::{Block, Blocks};

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;
    const HEAD: u64 = 0x90_0000;

    /// One block of so many bytes with these contents; the head.
    fn look<T>(
        size: u64,
        bytes: &[u8],
        head: &[u64],
        look: impl Fn(&View<'_, '_>) -> Option<T>,
    ) -> Option<T> {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1000);
        memory.map(HEAD..HEAD + 0x1000);
        memory.write_bytes(HEAP, bytes);
        (HEAD..).step_by(8).zip(head).for_each(|(at, word)| memory.write(at, *word));
        let blocks = Blocks::new(vec![Block { at: HEAP, size, stack: 0 }]);
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        let view =
            View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left };
        look(&view)
    }

    #[test]
    fn a_text_fits_its_room_and_is_text() {
        let text = |bytes: &[u8], head: [u64; 3]| {
            look(40, bytes, &head, |view| view.rust_text(HEAD, true)).is_some()
        };
        assert!(text("größer".as_bytes(), [33, HEAP, 8]));
        assert!(text(b"name\n", [HEAP, 40, 5]), "of older compilers");
        for (bytes, head) in [
            (&b"abcdef"[..], [33, HEAP, 34]),
            (b"abcdef", [41, HEAP, 6]),
            (b"abcdef", [8, HEAP, 6]),
            (b"abcdef", [33, HEAP + 8, 6]),
            (b"abc", [33, HEAP, 3]),
            (b"abc\0ef", [33, HEAP, 6]),
            (b"abc\xffef", [33, HEAP, 6]),
        ] {
            assert!(!text(bytes, head), "{bytes:?} {head:?}");
        }
        // The form of older compilers is nearly that of another language's.
        let head = [HEAP, 40, 5];
        assert!(look(40, b"names", &head, |view| view.rust_text(HEAD, false)).is_none());
    }

    #[test]
    fn a_table_has_as_many_slots_in_use_as_its_head_says() {
        // Eight slots of 16 bytes, of which three are in use and one was.
        let mut bytes = vec![7; 128];
        let control = [1, EMPTY, 2, DELETED, EMPTY, 3, EMPTY, EMPTY];
        bytes.extend(control);
        bytes.extend([EMPTY; 8]);
        bytes.extend(control);
        let table =
            |head: [u64; 4]| look(152, &bytes, &head, |view| view.rust_table(HEAD)).is_some();
        let at = HEAP + 128;
        assert!(table([at, 7, 3, 3]));
        for head in [
            [at, 7, 3, 4],
            [at, 7, 5, 3],
            [at, 6, 3, 3],
            [at, 15, 3, 3],
            [at + 8, 7, 3, 3],
            [HEAP, 7, 3, 3],
            [at, 7, 3, 0],
            [at, u64::MAX, 3, 3],
        ] {
            assert!(!table(head), "{head:?}");
        }
    }
}
