//! Pointers to the inside of a block that hold it all the same, since that is how C++ keeps some of
//! its objects: by what lies in front of their elements, or by their second base class.

use super::{
    blocks::{Block, Blocks, COOKIE, Hit},
    memory::{Layout, Memory, covers},
};

/// Tables of virtual functions begin with small numbers or null; a function comes soon.
const TABLE_WORDS: usize = 4;

/// What is asked of memory for it, at most; beyond that pointers to the inside stay doubtful.
const MOST_LOOKS: u32 = 4 << 20;

/// Judges pointers to the inside of blocks.
pub struct Inside<'a, M> {
    blocks: &'a Blocks,
    layout: &'a Layout,
    memory: &'a mut M,
    looks: u32,
    /// The last word that was asked about being a table of virtual functions.
    last: Option<(u64, bool)>,
}

/// What a pointer to the inside means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It holds the block.
    Holds,
    /// It may be chance.
    Doubtful,
    /// It means what follows the block, not the block.
    Nothing,
}

impl<'a, M: Memory> Inside<'a, M> {
    /// Of these blocks in this memory.
    pub fn new(blocks: &'a Blocks, layout: &'a Layout, memory: &'a mut M) -> Self {
        Self { blocks, layout, memory, looks: 0, last: None }
    }

    /// What the pointer means.
    pub fn meaning(&mut self, hit: Hit) -> Meaning {
        let block = *self.blocks.get(hit.block);
        if self.blocks.is_mapping(&block) {
            return Meaning::Holds;
        }
        let is_end = u64::from(hit.offset) == block.size;
        if self.looks >= MOST_LOOKS {
            return if is_end { Meaning::Nothing } else { Meaning::Doubtful };
        }
        self.looks += 1;
        let head = self.words(block.at);
        let holds = match u64::from(hit.offset) {
            COOKIE if is_end => head[0] == 0,
            COOKIE if is_array(&block, &head) => true,
            offset if offset == size_of_val(&head) as u64 && is_string(&block, &head) => true,
            offset => !is_end && offset.is_multiple_of(8) && self.is_base(&block, offset, head[0]),
        };
        match (holds, is_end) {
            (true, _) => Meaning::Holds,
            (false, true) => Meaning::Nothing,
            (false, false) => Meaning::Doubtful,
        }
    }

    /// A base class that is not the first begins with a table of its own.
    fn is_base(&mut self, block: &Block, offset: u64, first: u64) -> bool {
        self.is_table(first) && {
            let [second, ..] = self.words(block.at.saturating_add(offset));
            self.is_table(second)
        }
    }

    fn is_table(&mut self, at: u64) -> bool {
        if let Some((asked, answer)) = self.last
            && asked == at
        {
            return answer;
        }
        let answer = at != 0 && at.is_multiple_of(8) && covers(&self.layout.files, at) && {
            let mut bytes = [0; TABLE_WORDS * 8];
            self.memory.read(at, &mut bytes);
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().any(|word| covers(&self.layout.code, u64::from_le_bytes(*word)))
        };
        self.last = Some((at, answer));
        answer
    }

    fn words(&mut self, at: u64) -> [u64; 3] {
        let mut bytes = [0; 24];
        self.memory.read(at, &mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        [0, 1, 2].map(|index| words.get(index).map_or(0, |word| u64::from_le_bytes(*word)))
    }
}

/// `new T[n]` returns what follows the number of elements, if they are to be destroyed.
fn is_array(block: &Block, head: &[u64; 3]) -> bool {
    head[0] != 0 && (block.size - COOKIE).is_multiple_of(head[0])
}

/// A string shared between copies has its length, its room and its owners in front.
fn is_string(block: &Block, head: &[u64; 3]) -> bool {
    let [length, room, owners] = *head;
    let is_counter = (owners & 0xffff_ffff) >> 31 == 0;
    let whole = room.saturating_add(size_of_val(head) as u64 + 1);
    length <= room && whole <= block.size && is_counter
}
