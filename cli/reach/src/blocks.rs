//! The live blocks by their address, and which of them a word leads into.
//!
//! Every word of memory is looked up, so the look-up is what the check costs. Blocks lie in
//! clusters; each cluster is cut into granules of one size, about four to a block, and a table
//! says at which block to begin. Memory is bounded by the number of blocks alone, wherever a
//! hostile target says they are.

use std::collections::HashSet;

/// Blocks farther apart are in different clusters.
const APART: u64 = 1 << 20;
/// Granules a block, on average.
const GRANULES: u64 = 4;
/// Allocators align to this at least.
const LEAST_GRANULE: u64 = 16;
/// No address is higher.
const ADDRESSES: u64 = 1 << 48;

/// From here on the number of a stack is that of a group of blocks whose allocation was not recorded: an
/// allocator says that they are there.
pub const UNRECORDED: u32 = 1 << 31;

/// The number that C++ puts before the elements of an array.
pub const COOKIE: u64 = 8;

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The address of its first byte.
    pub at: u64,
    /// The bytes requested.
    pub size: u64,
    /// The number of the stack that asked.
    pub stack: u32,
}

/// A block that a word leads into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit {
    /// The number of the block.
    pub block: u32,
    /// How far behind its beginning; cut off where that does not matter.
    pub offset: u32,
}

/// Blocks that lie near one another.
#[derive(Debug)]
struct Cluster {
    start: u64,
    /// Behind the last byte.
    end: u64,
    /// Binary logarithm of a granule.
    shift: u32,
    /// Where its part of the table begins.
    table: usize,
}

/// All blocks, ascending; no two overlap.
#[derive(Debug)]
pub struct Blocks {
    blocks: Vec<Block>,
    clusters: Vec<Cluster>,
    /// By granule: the first block that ends behind its start.
    table: Vec<u32>,
    /// Where mappings begin.
    mappings: HashSet<u64>,
    /// Blocks that were cut off since another begins inside, or that cannot be.
    pub impossible: u64,
}

impl Block {
    /// Whether its allocation was recorded.
    pub fn is_recorded(&self) -> bool {
        self.stack < UNRECORDED
    }

    /// Behind its last byte.
    pub fn end(&self) -> u64 {
        self.at.saturating_add(self.size)
    }

    /// Behind the last address that can mean it: a block of no bytes has one, too, and so has an
    /// array of no elements behind its cookie.
    fn reach(&self) -> u64 {
        match self.size {
            0 => self.at + 1,
            COOKIE => self.at + COOKIE + 1,
            size => self.at.saturating_add(size),
        }
    }
}

impl Blocks {
    /// With mappings, which any pointer holds that leads into them: where a program keeps what in its pages
    /// is its own business. None overlaps a block.
    pub fn with_mappings(blocks: Vec<Block>, mappings: &[Block]) -> Self {
        let all = Self::new(blocks.into_iter().chain(mappings.iter().copied()).collect());
        Self { mappings: mappings.iter().map(|mapping| mapping.at).collect(), ..all }
    }

    /// Whether it is a mapping.
    pub fn is_mapping(&self, block: &Block) -> bool {
        self.mappings.contains(&block.at)
    }

    /// In any order; of blocks that overlap the lower ends where the upper begins.
    pub fn new(mut blocks: Vec<Block>) -> Self {
        let told = blocks.len();
        blocks.retain(|block| block.at < ADDRESSES && block.size < ADDRESSES);
        blocks.truncate(u32::MAX as usize / 2);
        blocks.sort_unstable_by_key(|block| block.at);
        blocks.dedup_by_key(|block| block.at);
        let mut impossible = (told - blocks.len()) as u64;
        for index in 1..blocks.len() {
            let next = blocks[index].at;
            if let Some(block) = blocks.get_mut(index - 1)
                && block.end() > next
            {
                block.size = next - block.at;
                impossible += 1;
            }
        }
        let (clusters, table, mappings) = Default::default();
        let mut all = Self { blocks, clusters, table, mappings, impossible };
        let mut first = 0;
        for index in 1..=all.blocks.len() {
            let is_last = all
                .blocks
                .get(index)
                .is_none_or(|block| block.at.saturating_sub(all.blocks[index - 1].reach()) > APART);
            if is_last {
                all.add_cluster(first, index);
                first = index;
            }
        }
        all
    }

    fn add_cluster(&mut self, first: usize, behind: usize) {
        let members = &self.blocks[first..behind];
        let (Some(lowest), Some(highest)) = (members.first(), members.last()) else { return };
        let (start, end) = (lowest.at, highest.reach());
        let wanted = (end - start) / (members.len() as u64 * GRANULES);
        let shift = wanted.max(LEAST_GRANULE).next_power_of_two().trailing_zeros();
        let table = self.table.len();
        let mut block = first;
        // One more than there are, so that the next granule can always be asked for.
        for granule in 0..=((end - start - 1) >> shift) + 1 {
            let at = start + (granule << shift);
            while block + 1 < behind && self.blocks[block].reach() <= at {
                block += 1;
            }
            self.table.push(number(block));
        }
        self.clusters.push(Cluster { start, end, shift, table });
    }

    /// All blocks, by address.
    pub fn all(&self) -> &[Block] {
        &self.blocks
    }

    /// Gives each block a number in the place of its stack: where it lies stays as it is.
    pub fn set_stacks(&mut self, mut stack: impl FnMut(u32, &Block) -> u32) {
        for (number, block) in (0..).zip(&mut self.blocks) {
            block.stack = stack(number, block);
        }
    }

    /// The block with this number.
    pub fn get(&self, block: u32) -> &Block {
        &self.blocks[block as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The addresses between which all of them are.
    pub fn span(&self) -> std::ops::Range<u64> {
        let start = self.clusters.first().map_or(0, |cluster| cluster.start);
        start..self.clusters.last().map_or(0, |cluster| cluster.end)
    }

    /// The number of the block that has this address.
    pub fn containing(&self, at: u64) -> Option<u32> {
        self.find(at).map(|hit| hit.block)
    }

    /// The block that a word leads into.
    pub(crate) fn find(&self, word: u64) -> Option<Hit> {
        let index = self.clusters.partition_point(|cluster| cluster.end <= word);
        let cluster = self.clusters.get(index).filter(|cluster| word >= cluster.start)?;
        let granule = usize::try_from((word - cluster.start) >> cluster.shift).ok()?;
        let first = self.table[cluster.table + granule] as usize;
        let last = self.table[cluster.table + granule + 1] as usize;
        let members = &self.blocks[first..=last];
        let before = match members {
            [one] => usize::from(one.at <= word),
            [_, two] if two.at > word => usize::from(members[0].at <= word),
            _ => members.partition_point(|block| block.at <= word),
        };
        let block = members.get(before.checked_sub(1)?)?;
        (word < block.reach()).then(|| Hit {
            block: number(first + before - 1),
            offset: u32::try_from(word - block.at).unwrap_or(u32::MAX),
        })
    }
}

/// The constructor sees to it that the numbers fit.
fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(at: u64, size: u64) -> Block {
        Block { at, size, stack: 0 }
    }

    #[test]
    fn a_word_leads_to_the_beginning_or_the_inside_of_a_block() {
        let blocks = Blocks::new(vec![block(0x2000, 24), block(0x1000, 32), block(0x7f00_0000, 0)]);
        let hit = |word| blocks.find(word).map(|hit| (hit.block, hit.offset));
        assert_eq!((hit(0x1000), hit(0x101f), hit(0x1020)), (Some((0, 0)), Some((0, 31)), None));
        assert_eq!((hit(0x1fff), hit(0x2000), hit(0x2018)), (None, Some((1, 0)), None));
        assert_eq!((hit(0x7f00_0000), hit(0x7f00_0001)), (Some((2, 0)), None));
        assert_eq!((hit(0), hit(u64::MAX)), (None, None));
    }

    #[test]
    fn the_end_of_a_block_means_it_only_where_an_empty_array_can_be() {
        let blocks = Blocks::new(vec![block(0x1000, 8), block(0x1010, 16)]);
        assert_eq!(blocks.find(0x1008), Some(Hit { block: 0, offset: 8 }));
        assert_eq!(blocks.find(0x1020), None);
    }

    #[test]
    fn blocks_that_cannot_be_are_counted_and_cut_off() {
        let told = vec![block(64, 64), block(96, 8), block(u64::MAX, 8), block(8, u64::MAX)];
        let blocks = Blocks::new(told);
        assert_eq!(blocks.all(), [block(64, 32), block(96, 8)]);
        assert_eq!(blocks.impossible, 3);
    }

    proptest! {
        #[test]
        fn the_table_finds_what_a_search_through_all_finds(
            places in prop::collection::vec((0..1_u64 << 24, 0..6_u32, 0..200_u64), 0..300),
            words in prop::collection::vec((0..1_u64 << 24, 0..6_u32), 0..300),
        ) {
            // Several clusters, some of them dense.
            let far = |at: u64, place: u32| (at >> (place * 3)) * 8 + (u64::from(place) << 40);
            let told: Vec<_> = places.iter().map(|&(at, p, size)| block(far(at, p), size)).collect();
            let near = told.iter().flat_map(|b| [b.at, b.at + 1, b.end(), b.at.saturating_sub(1)]);
            let words: Vec<u64> = near.chain(words.iter().map(|&(at, p)| far(at, p))).collect();
            let blocks = Blocks::new(told);
            for word in words {
                let slow = blocks.all().iter().position(|b| b.at <= word && word < b.reach());
                let fast = blocks.find(word).map(|hit| hit.block as usize);
                // Behind an empty array another block can begin.
                let next = blocks.all().iter().position(|b| b.at == word);
                prop_assert_eq!(fast, next.or(slow), "{:#x}", word);
            }
        }
    }
}
