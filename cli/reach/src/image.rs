//! Memory for tests, written word by word.

use std::{collections::BTreeMap, ops::Range};

use super::{Block, Blocks, Checked, Layout, Memory, Piece, RootKind, check};

/// A heap, and pieces of other memory.
#[derive(Debug, Default)]
pub struct Image {
    /// Live blocks.
    pub blocks: Vec<Block>,
    /// And mappings.
    pub mappings: Vec<Block>,
    /// Where everything is.
    pub layout: Layout,
    words: BTreeMap<u64, u64>,
}

impl Image {
    /// Adds a live block; answers its number if blocks are added in the order of addresses.
    pub fn block(&mut self, at: u64, size: u64, stack: u32) -> u64 {
        self.blocks.push(Block { at, size, stack });
        at
    }

    /// Writes a word.
    pub fn write(&mut self, at: u64, word: u64) {
        self.words.insert(at, word);
    }

    /// A range that is looked through.
    pub fn piece(&mut self, range: Range<u64>, root: Option<RootKind>) {
        self.layout.pieces.push(Piece { range, root });
        self.layout.pieces.sort_by_key(|piece| piece.range.start);
    }

    /// The result.
    pub fn check(mut self) -> Checked {
        let mappings = std::mem::take(&mut self.mappings);
        let blocks = Blocks::with_mappings(std::mem::take(&mut self.blocks), &mappings);
        let layout = std::mem::take(&mut self.layout);
        check(&blocks, &layout, &mut self, 10)
    }
}

impl Memory for Image {
    fn read(&mut self, at: u64, buffer: &mut [u8]) {
        buffer.fill(0);
        let end = at + buffer.len() as u64;
        for (&place, word) in self.words.range(at.saturating_sub(7)..end) {
            for (byte, from) in word.to_le_bytes().into_iter().zip(place..) {
                if let Some(to) = from.checked_sub(at).and_then(|to| usize::try_from(to).ok())
                    && let Some(slot) = buffer.get_mut(to)
                {
                    *slot = byte;
                }
            }
        }
    }
}
