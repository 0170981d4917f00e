//! What LLVM's library has otherwise than libstdc++: texts, trees and deques. Its arrays, lists and hash tables have the
//! same form.

use super::forms::View;

/// A text with less room lies in the head itself.
const SHORTEST_ROOM: u64 = 24;
/// What says that a text has a block.
const LONG: u64 = 1;
/// Longer chains are not followed to their end, and are none then.
const MOST: u64 = 1 << 24;
/// A node of a tree: three links, a colour, and what is behind it.
const NODE: std::ops::RangeInclusive<u64> = 32..=1 << 16;
const BLACK: u64 = 1;
/// Bytes of a piece of a deque, unless it has as many elements as this: of those that no whole number fits, a few less.
const PIECE: u64 = 4096 - 256;
const ELEMENTS: u64 = 16;
/// No larger table is looked at.
const MOST_SLOTS: u64 = 1 << 20;

impl View<'_, '_> {
    /// Room with a mark, length, address: room fits the block, there is a zero behind the length, and none before it.
    pub fn libcpp_text(&self, at: u64) -> Option<u32> {
        let [marked, length, from] = self.words(at)?;
        let room = marked & !LONG;
        let is_text = marked & LONG != 0
            && room.is_multiple_of(2)
            && room >= SHORTEST_ROOM
            && length < room
            && self.blocks.span().contains(&from);
        if !is_text {
            return None;
        }
        let (number, size) = self.block(from)?;
        (self.is_room_of(room, size) && self.ends_there(from, length)).then_some(number)
    }

    /// Nodes of a tree: the head has the first, the root, and their number; the root leads back to where the head has it,
    /// and each node to the one above it.
    pub fn libcpp_tree(&self, at: u64) -> Option<Vec<u32>> {
        let [first, root, count] = self.words(at)?;
        let own = at.checked_add(8)?;
        if count == 0 || count > MOST || first == 0 || root == 0 {
            return None;
        }
        // Only links to the left lead to the first one.
        let (mut nodes, mut open, mut has_first) = (Vec::new(), vec![(root, own, true)], false);
        while let Some((node, above, is_left)) = open.pop() {
            self.step()?;
            let (number, size) = self.block(node)?;
            let [left, right, back, colour] = self.words(node)?;
            let is_node = colour & 0xff <= BLACK
                && back == above
                && NODE.contains(&size)
                && (nodes.len() as u64) < count;
            if !is_node {
                return None;
            }
            has_first |= is_left && left == 0 && node == first;
            nodes.push(number);
            let below = [(left, node, is_left), (right, node, false)];
            open.extend(below.into_iter().filter(|(below, ..)| *below != 0));
        }
        (nodes.len() as u64 == count && has_first).then_some(nodes)
    }

    /// The head has a table, the part of it that leads to pieces, its end, the number of the first element, and how many
    /// there are; pieces are of one size, and not many more than these need. Answers the table and the pieces.
    pub fn libcpp_deque(&self, at: u64) -> Option<(u32, Vec<u32>)> {
        let [table, from, to, end] = self.words(at)?;
        let [first, count] = self.words(at.checked_add(32)?)?;
        let are_places = table != 0 && table <= from && from < to && to <= end;
        let parts = [from, to, end].map(|place| place.wrapping_sub(table));
        if !are_places || count == 0 || parts.iter().any(|part| !part.is_multiple_of(8)) {
            return None;
        }
        let (number, size) = self.block(table)?;
        let (many, slots) = ((to - from) / 8, (end - table) / 8);
        if slots > MOST_SLOTS || !self.is_room_of(slots * 8, size) {
            return None;
        }
        let (mut pieces, mut sizes) = (Vec::new(), 0..=u64::MAX);
        for slot in (from..to).step_by(8) {
            self.step()?;
            let [at] = self.words(slot)?;
            let (piece, size) = self.block(at)?;
            // An allocator may have had a few bytes more for one of them.
            sizes = size.saturating_sub(16).max(*sizes.start())..=(size + 16).min(*sizes.end());
            pieces.push(piece);
            if size < PIECE || !sizes.contains(&size) {
                return None;
            }
        }
        // At most two pieces at each end have no element.
        let behind = first.checked_add(count)?;
        let fits =
            behind < many.checked_mul(*sizes.end())? && behind > many.saturating_sub(4) * ELEMENTS;
        fits.then_some((number, pieces))
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
    /// A text, three nodes of a tree, the table of a deque, and two pieces.
    const BLOCKS: [(u64, u64); 7] = [
        (HEAP, 56),
        (HEAP + 0x100, 40),
        (HEAP + 0x200, 40),
        (HEAP + 0x300, 40),
        (HEAP + 0x400, 72),
        (HEAP + 0x1000, 4104),
        (HEAP + 0x3000, 4104),
    ];
    const TREE: u64 = HEAD + 0x40;
    const DEQUE: u64 = HEAD + 0x80;

    /// What is found with these words changed: whether there is a text, nodes, and a deque.
    fn look(changes: &[(u64, u64)]) -> (bool, usize, bool) {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x8000);
        memory.map(HEAD..HEAD + 0x1000);
        memory.write_bytes(HEAP, &[b'x'; 40]);
        let [left, root, right] = [1, 2, 3].map(|number| HEAP + number * 0x100);
        let table = HEAP + 0x400;
        let heads = [
            (HEAD, [49, 40, HEAP].to_vec()),
            (TREE, [left, root, 3].to_vec()),
            (root, [left, right, TREE + 8, 1].to_vec()),
            (left, [0, 0, root, 0x700].to_vec()),
            (right, [0, 0, root, 1].to_vec()),
            (DEQUE, [table, table + 16, table + 32, table + 64, 100, 600].to_vec()),
            (table + 16, [HEAP + 0x1000, HEAP + 0x3000].to_vec()),
        ];
        for (at, words) in heads {
            (at..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        }
        changes.iter().for_each(|&(at, word)| memory.write(at, word));
        let block = |(at, size)| Block { at, size, stack: 0 };
        let blocks = Blocks::new(BLOCKS.map(block).into());
        let (moment, left) = (memory.moment(), Cell::new(1 << 20));
        let view =
            View { moment: &moment, blocks: &blocks, has_classes: false, modules: 0..0, left };
        let nodes = view.libcpp_tree(TREE).unwrap_or_default();
        let deque = view.libcpp_deque(DEQUE);
        let is_deque = deque.is_some_and(|(table, pieces)| table == 4 && pieces == [5, 6]);
        (view.libcpp_text(HEAD) == Some(0), nodes.len(), is_deque)
    }

    #[test]
    fn each_form_is_whole_or_none() {
        assert_eq!(look(&[]), (true, 3, true));
        for (at, word) in [
            (HEAD, 48),
            (HEAD, 65),
            (HEAD, 23),
            (HEAD + 8, 39),
            (HEAD + 8, 41),
            (HEAD + 16, HEAP + 8),
            (HEAP + 8, 0),
        ] {
            assert_eq!(look(&[(at, word)]), (false, 3, true), "{at:#x} {word:#x}");
        }
        for (at, word) in [
            (TREE, HEAP + 0x300),
            (TREE + 8, HEAP + 0x100),
            (TREE + 16, 2),
            (TREE + 16, 4),
            (HEAP + 0x210, TREE),
            (HEAP + 0x218, 2),
            (HEAP + 0x310, HEAP + 0x100),
            (HEAP + 0x308, HEAP + 0x100),
        ] {
            assert_eq!(look(&[(at, word)]), (true, 0, true), "{at:#x} {word:#x}");
        }
        for (at, word) in [
            (DEQUE, HEAP + 0x408),
            (DEQUE + 8, HEAP + 0x408),
            (DEQUE + 16, HEAP + 0x428),
            (DEQUE + 24, HEAP + 0x480),
            (DEQUE + 24, HEAP + 0x41c),
            (DEQUE + 40, 0),
            (DEQUE + 40, 9000),
            (HEAP + 0x418, HEAP + 0x3008),
        ] {
            assert_eq!(look(&[(at, word)]), (true, 3, false), "{at:#x} {word:#x}");
        }
    }
}
