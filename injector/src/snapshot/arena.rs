//! Where glibc's allocator keeps its books: a pointer there is no pointer of the program's. Found
//! by their shape, since release builds name none of it. Pure.

use std::ops::Range;

/// Bins of an arena, each a pair of words.
const BINS: usize = 127;
/// So many of them are empty at any time, and lead to themselves; the last one always is.
const EMPTY_BINS: usize = 24;
/// What lies before the bins: lock, fast bins, the top of the heap; and behind them.
const BEFORE: u64 = 0x70;
const BEHIND: u64 = 0x48;
/// Of a chunk, the words before its links.
const HEAD: u64 = 16;

/// Further heaps begin at multiples of this.
pub const HEAP_STEP: u64 = 64 << 20;

/// The arena in these bytes of a module, which begin at `start`.
pub fn find_arena(start: u64, bytes: &[u8]) -> Option<Range<u64>> {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
    let address = |index: usize| start + (index as u64) * 8;
    let is_empty = |index: usize| {
        let own = Some(address(index).wrapping_sub(HEAD));
        word(index) == own && word(index + 1) == own
    };
    let mut index = 0;
    while index < words.len() {
        if !is_empty(index) {
            index += 1;
            continue;
        }
        // The first empty one: the last is at most so far away.
        let bins = (0..BINS).map(|bin| index + bin * 2).filter(|&bin| is_empty(bin));
        let (count, last) = bins.fold((0, index), |(count, _), bin| (count + 1, bin));
        if count >= EMPTY_BINS {
            let first = address(last).saturating_sub((BINS as u64 - 1) * 16);
            return Some(first.saturating_sub(BEFORE)..first + BINS as u64 * 16 + BEHIND);
        }
        index += 2;
    }
    None
}

/// The heap that begins at `at`, a multiple of [`HEAP_STEP`], if these are its first words and
/// `limit` is where its memory ends.
pub fn heap_at(at: u64, words: [u64; 4], limit: u64) -> Option<Range<u64>> {
    let [arena, before, size, usable] = words;
    let is_heap = |at: u64| at != 0 && at.is_multiple_of(HEAP_STEP);
    let own = arena & !(HEAP_STEP - 1);
    let is_sound = is_heap(own)
        && (own == at || is_heap(before))
        && (before == 0 || is_heap(before))
        && size <= usable
        && (1..=HEAP_STEP).contains(&usable)
        && usable.is_multiple_of(4096)
        && at + usable <= limit;
    is_sound.then_some(at..at + usable)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An arena whose bins begin at word 20 of what lies at `start`.
    fn arena(start: u64, taken: &[usize]) -> Vec<u8> {
        let mut words = vec![7_u64; 400];
        for bin in 0..BINS {
            let at = 20 + bin * 2;
            let own = start + at as u64 * 8 - HEAD;
            let links = if taken.contains(&bin) { [0x5000, 0x6000] } else { [own, own] };
            words[at..at + 2].copy_from_slice(&links);
        }
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn an_arena_is_known_by_its_empty_bins() {
        let bins = 0x7000 + 20 * 8;
        let expected = Some(bins - BEFORE..bins + 127 * 16 + BEHIND);
        assert_eq!(find_arena(0x7000, &arena(0x7000, &[])), expected);
        let busy: Vec<usize> = (0..100).collect();
        assert_eq!(find_arena(0x7000, &arena(0x7000, &busy)), expected);
        assert_eq!(find_arena(0x8000, &arena(0x7000, &[])), None);
    }

    #[test]
    fn a_heap_is_known_by_its_first_words() {
        let at = 7 * HEAP_STEP;
        let words = [at + 0x30, 0, 0x2_1000, 0x2_1000];
        assert_eq!(heap_at(at, words, at + 0x2_1000), Some(at..at + 0x2_1000));
        assert_eq!(heap_at(at, words, at + 0x2_0000), None);
        let another = [at + 0x30, at, 0x1000, 0x1000];
        assert_eq!(heap_at(2 * at, another, u64::MAX), Some(2 * at..2 * at + 0x1000));
        assert_eq!(heap_at(at, [0; 4], u64::MAX), None);
        assert_eq!(heap_at(2 * at, words, u64::MAX), None);
    }
}
