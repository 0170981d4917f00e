//! The table and the pieces of `std::deque`.

use super::forms::View;

/// Bytes of a piece, unless a single element has more.
const PIECE: u64 = 512;
/// No larger table is looked at.
const MOST: u64 = 1 << 20;

impl View<'_, '_> {
    /// The head has the table, the number of its slots, and two places: the first element and what is behind the last,
    /// each with the piece that it is in, the end of that, and its slot in the table. Answers the table and the pieces.
    pub fn deque(&self, at: u64) -> Option<(u32, Vec<u32>)> {
        let [table, slots] = self.words(at)?;
        let [first, begin, end, from] = self.words(at.checked_add(16)?)?;
        let [behind, last_begin, last_end, to] = self.words(at.checked_add(48)?)?;
        let (number, size) = self.block(table)?;
        let bytes = slots.checked_mul(8).filter(|_| slots <= MOST)?;
        let piece = end.checked_sub(begin)?;
        let is_in_table = |slot: u64| {
            slot.checked_sub(table).is_some_and(|own| own < bytes && own.is_multiple_of(8))
        };
        let are_places = (begin..end).contains(&first)
            && (last_begin..last_end).contains(&behind)
            && last_end - last_begin == piece
            && (from < to || from == to && first <= behind);
        let is_deque = are_places
            && (PIECE / 2..).contains(&piece)
            && self.is_room_of(bytes, size)
            && is_in_table(from)
            && is_in_table(to);
        if !is_deque || self.words(from)? != [begin] || self.words(to)? != [last_begin] {
            return None;
        }
        let mut pieces = Vec::new();
        for slot in (from..=to).step_by(8) {
            self.step()?;
            let [at] = self.words(slot)?;
            let (number, size) = self.block(at)?;
            if !self.is_room_of(piece, size) {
                return None;
            }
            pieces.push(number);
        }
        Some((number, pieces))
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

    fn look(change: Option<(u64, u64)>) -> Option<(u32, Vec<u32>)> {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x2000);
        memory.map(HEAD..HEAD + 0x1000);
        let piece = |number: u64| HEAP + 0x400 * (number + 1);
        let table = HEAP;
        // Eight slots; three pieces in the middle of them.
        let (from, to) = (table + 16, table + 32);
        let words = [table, 8, piece(0) + 64, piece(0), piece(0) + 512, from].into_iter().chain([
            piece(2) + 8,
            piece(2),
            piece(2) + 512,
            to,
        ]);
        (HEAD..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        (0..3).for_each(|number| memory.write(from + number * 8, piece(number)));
        if let Some((at, word)) = change {
            memory.write(at, word);
        }
        let pieces = (0..3).map(|number| Block { at: piece(number), size: 520, stack: 0 });
        let table = Block { at: table, size: 72, stack: 0 };
        let blocks = Blocks::new(std::iter::once(table).chain(pieces).collect());
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left }
            .deque(HEAD)
    }

    #[test]
    fn places_slots_and_pieces_fit_together() {
        assert_eq!(look(None), Some((0, vec![1, 2, 3])));
        for change in [
            (HEAD + 8, 20),
            (HEAD + 16, HEAP + 0x400 + 520),
            (HEAD + 24, HEAP + 0x408),
            (HEAD + 32, HEAP + 0x400 + 256),
            (HEAD + 40, HEAP + 24),
            (HEAD + 40, HEAP + 40),
            (HEAD + 48, HEAP + 0xc00 + 512),
            (HEAD + 72, HEAP + 64),
            (HEAP + 24, HEAP + 0x808),
            (HEAP + 16, HEAP + 0x800),
        ] {
            assert_eq!(look(Some(change)), None, "{change:#x?}");
        }
    }
}
