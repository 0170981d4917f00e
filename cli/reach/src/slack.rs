//! What glibc leaves over behind a large block. Such a block has pages of its own, and its chunk
//! ends where they end; when it shrinks, what it held there stays, and belongs to no block.

use super::Block;

/// Of a chunk's second word, the bits that are no size.
const FLAGS: u64 = 7;
/// The one that a chunk with pages of its own has set, and no other.
const OWN_PAGES: u64 = 2;
const PAGE: u64 = 4096;
/// The two words before a block.
const HEAD: u64 = 16;

/// Where the chunk of a block ends, if it has pages of its own; `word` is the one before the block.
pub fn end_of_chunk(block: &Block, word: u64) -> Option<u64> {
    let end = block.at.checked_sub(HEAD)?.checked_add(word & !FLAGS)?;
    let left = end.checked_sub(block.end())?;
    (word & FLAGS == OWN_PAGES && end.is_multiple_of(PAGE) && left < PAGE + HEAD).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_with_pages_of_its_own_ends_with_them() {
        let block = Block { at: 0x7000_0010, size: 200_000, stack: 0 };
        assert_eq!(end_of_chunk(&block, 0x3_1000 | 2), Some(0x7003_1000));
        // An ordinary chunk, one that ends before its block, one of another page, one far too long.
        for word in [0x3_1001, 0x3_0002, 0x3_1012, 0x9_1002, u64::MAX - 5] {
            assert_eq!(end_of_chunk(&block, word), None, "{word:#x}");
        }
    }
}
