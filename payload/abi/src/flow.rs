//! How many blocks of each size a thread was handed and gave back, where that is asked for: whatever
//! is older than the session counts when it goes.
//!
//! Sizes are those of whole chunks as the allocator of glibc keeps them in the word before a block, or
//! what another allocator says that a block has room for: known in the same way when a block comes and
//! when it goes. Which sizes a request leads to is noted beside.

/// Chunks are multiples of this.
pub const STEP: u64 = 16;
/// Below this each size is a class of its own; above, four classes share a power of two.
pub const FINE: u64 = 1024;
/// How many classes there are; the last one has all that is larger.
pub const CLASSES: usize = 192;
/// For each class: blocks allocated, then blocks freed.
pub const CLASS_BYTES: usize = 16;
/// What belongs to a row.
pub const FLOW_BYTES: usize = CLASSES * CLASS_BYTES;
/// A hook counts for its function if its second cell holds this.
pub const COUNTS: u64 = 1;

/// Size of what is noted of requests: for each class of [`chunk_of`] a request, one word.
pub const SIZES_BYTES: usize = 4096;
/// In such a word: one of the sizes stood before its block.
pub const HAS_HEAD: u64 = 1;
/// Sizes are noted in multiples of this.
const SIZE_STEP: u64 = 8;

/// The least and the greatest size that requests led to, in one word. No word is 0.
pub const fn pack_sizes(least: u64, greatest: u64, head: u64) -> u64 {
    let (least, greatest) = (noted(least), noted(greatest));
    least | greatest << 32 | head & HAS_HEAD
}

/// The least and the greatest size of such a word, if there is one.
pub const fn sizes(word: u64) -> Option<(u64, u64)> {
    let (least, greatest) = (word & u32::MAX as u64 & !HAS_HEAD, word >> 32);
    if least == 0 || greatest < least { None } else { Some((least, greatest)) }
}

const fn noted(size: u64) -> u64 {
    let most = u32::MAX as u64 / SIZE_STEP * SIZE_STEP;
    if size < SIZE_STEP {
        SIZE_STEP
    } else if size > most {
        most
    } else {
        size / SIZE_STEP * SIZE_STEP
    }
}

/// A power of two has so many classes, and the first such power is this.
const PARTS_SHIFT: u32 = 2;
const FIRST_POWER: u32 = FINE.ilog2();
/// What is to be added to four times a power's number, less two, and the three topmost bits of a size.
pub const BIAS: usize = (FINE / STEP) as usize
    - ((FIRST_POWER - PARTS_SHIFT) << PARTS_SHIFT) as usize
    - (1 << PARTS_SHIFT);

/// The class of a chunk, whose lowest bits may be flags.
#[allow(clippy::cast_possible_truncation, reason = "a class is a small number")]
pub const fn class(chunk: u64) -> usize {
    if chunk < FINE {
        return (chunk / STEP) as usize;
    }
    let low = chunk.ilog2() - PARTS_SHIFT;
    let class = (low << PARTS_SHIFT) as usize + (chunk >> low) as usize + BIAS;
    if class < CLASSES { class } else { CLASSES - 1 }
}

/// The least chunk of a class.
#[allow(clippy::cast_possible_truncation, reason = "a class is a small number")]
pub const fn least(class: usize) -> u64 {
    let fine = (FINE / STEP) as usize;
    if class < fine {
        return class as u64 * STEP;
    }
    let (power, part) = ((class - fine) >> PARTS_SHIFT, (class - fine) as u64 & 3);
    (4 + part) << (power as u32 + FIRST_POWER - PARTS_SHIFT)
}

/// The chunk that a request of so many bytes leads to, if nothing is left over.
pub const fn chunk_of(request: u64) -> u64 {
    let chunk = request.saturating_add(8 + STEP - 1) / STEP * STEP;
    if chunk < 32 { 32 } else { chunk }
}

const _: () = assert!(FLOW_BYTES.is_multiple_of(1024));
const _: () = assert!(CLASS_BYTES as u64 == STEP);
const _: () = assert!(CLASSES * 8 <= SIZES_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_begins_where_the_one_before_ends() {
        for number in 1..CLASSES {
            assert_eq!(class(least(number)), number);
            assert_eq!(class(least(number) - 1), number - 1);
        }
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn sizes_are_found_in_their_word() {
        assert_eq!(sizes(pack_sizes(48, 1 << 40, HAS_HEAD)), Some((48, 0xffff_fff8)));
        assert_eq!(sizes(pack_sizes(0, 9, 0)), Some((8, 8)));
        assert_eq!((sizes(0), sizes(HAS_HEAD), sizes(1 << 32 | 16)), (None, None, None));
    }

    #[test]
    fn a_request_has_room_for_the_head_of_its_chunk() {
        let chunks = [0, 24, 25, 40, 41, 1000, u64::MAX].map(chunk_of);
        assert_eq!(chunks[..6], [32, 32, 48, 48, 64, 1008]);
    }
}
