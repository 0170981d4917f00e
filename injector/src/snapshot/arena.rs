//! Where glibc's allocator keeps its books, and which memory it allocates blocks from: a pointer in the
//! books is no pointer of the program's. Found by their shape, since release builds name none of it, and
//! every release has another one. Pure, but for what it is given to read with.

use std::ops::Range;

/// Bins of an arena, each a pair of words. The last one is never used.
const BINS: usize = 127;
/// So many of the others are as they should be at any time: a thread may be in the middle of a change.
const SOUND_BINS: usize = 120;
/// Of a chunk, the words before its links; and where its links are.
const HEAD: u64 = 16;
const NEXT: u64 = 16;
const PREVIOUS: u64 = 24;

/// How far an arena begins before its bins, by release: lock, flags, fast bins where there are any, the top
/// of the heap. 2.27 to 2.42, from 2.43 on, before 2.27.
const BEFORE: [u64; 3] = [0x70, 0x18, 0x68];
/// Where an arena's fields lie, from its bins: the top of its heap (before them), the next arena, the bytes
/// it had from the system, and its end.
const TOP: u64 = 0x10;
const NEXT_ARENA: u64 = 0x800;
const SYSTEM: u64 = 0x818;
const END: u64 = 0x828;
/// The largest arena there is.
pub const MOST_BOOKS: u64 = BEFORE[0] + END;

/// No program has more arenas, and no arena more heaps.
const MOST_ARENAS: usize = 4096;
const MOST_HEAPS: usize = 65_536;
/// Words that are read to compare chunks with bins, at most: a target can fill its variables with what
/// looks like bins.
const MOST_READ: usize = 1 << 16;

/// Further heaps begin at multiples of this, unless pages are huge.
pub const HEAP_STEP: u64 = 64 << 20;
/// What they may begin at multiples of.
const STEPS: [u64; 6] = [4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20];

/// No heap is larger, whatever it begins at a multiple of.
const LARGEST_HEAP: u64 = 128 << 20;

/// The flags in the size of a chunk, and the smallest one.
const FLAGS: u64 = 7;
const SMALLEST: u64 = 32;
/// A heap that was found by its top alone is believed if its chunks lead there; so many are followed.
const MOST_CHUNKS: usize = 1 << 20;

/// Loads a word of the target.
pub type Read<'r> = &'r mut dyn FnMut(u64) -> Option<u64>;

/// The main arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arena {
    /// Where its bins begin.
    bins: u64,
    /// How far before them it begins itself; the same of every other arena.
    before: u64,
}

impl Arena {
    /// The arena in these bytes of a module, which begin at `start`: the best that looks like one, and of
    /// equals the last.
    pub fn find(start: u64, bytes: &[u8], read: Read<'_>) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
        let address = |index: usize| start + (index as u64) * 8;
        let is_empty = |index: usize| {
            let own = Some(address(index).wrapping_sub(HEAD));
            word(index) == own && word(index + 1) == own
        };
        let mut budget = MOST_READ;
        let mut leads_back = |index: usize| {
            let (Some(next), Some(previous)) = (word(index), word(index + 1)) else { return false };
            if !is_chunk(next) || !is_chunk(previous) || budget < 2 {
                return false;
            }
            budget -= 2;
            let own = Some(address(index).wrapping_sub(HEAD));
            read(next.wrapping_add(PREVIOUS)) == own && read(previous.wrapping_add(NEXT)) == own
        };
        let mut best: Option<(usize, usize)> = None;
        // Whatever is in use, the last bin is empty.
        for last in (2 * (BINS - 1)..words.len()).filter(|&index| is_empty(index)) {
            let first = last - 2 * (BINS - 1);
            let (mut sound, mut wrong) = (0, 0);
            for bin in (first..last).step_by(2) {
                match is_empty(bin) || leads_back(bin) {
                    true => sound += 1,
                    false => wrong += 1,
                }
                if wrong > BINS - 1 - SOUND_BINS {
                    break;
                }
            }
            let is_better = best.is_none_or(|(most, _)| sound >= most);
            if wrong <= BINS - 1 - SOUND_BINS && is_better {
                best = Some((sound, first));
            }
        }
        best.map(|(_, first)| Self::of_bins(address(first), read))
    }

    /// With bins there; how far before them it begins tells the ring of arenas, which closes.
    fn of_bins(bins: u64, read: Read<'_>) -> Self {
        let all = BEFORE.map(|before| Self { bins, before });
        let closing = all.iter().find(|arena| arena.others(read).is_some());
        closing.copied().unwrap_or(all[0])
    }

    /// Its own memory.
    pub fn books(&self) -> Range<u64> {
        self.books_of(self.start())
    }

    /// The same of another one that begins there.
    pub fn books_of(&self, start: u64) -> Range<u64> {
        start..start.saturating_add(self.before + END)
    }

    fn start(&self) -> u64 {
        self.bins.saturating_sub(self.before)
    }

    /// Where the other arenas begin, if the ring of all closes.
    pub fn others(&self, read: Read<'_>) -> Option<Vec<u64>> {
        let mut others = Vec::new();
        let mut at = read(self.bins.checked_add(NEXT_ARENA)?)?;
        while at != self.start() {
            if others.len() >= MOST_ARENAS || at == 0 || !at.is_multiple_of(8) {
                return None;
            }
            others.push(at);
            at = read(at.checked_add(self.before + NEXT_ARENA)?)?;
        }
        Some(others)
    }

    /// The heaps of another arena that begins at `arena`: from that of its top to the first.
    pub fn heaps(&self, arena: u64, read: Read<'_>) -> Vec<Range<u64>> {
        let mut heaps = Vec::new();
        let Some(top) = read(arena.saturating_add(self.before - TOP)) else { return heaps };
        // The nearest: a step too large can lead to the first heap instead.
        let is_heap = |step: &&u64| read(top & !(**step - 1)) == Some(arena);
        let Some(step) = STEPS.iter().find(is_heap).copied() else { return heaps };
        let mut at = top & !(step - 1);
        while at != 0 && heaps.len() < MOST_HEAPS {
            let words = [0, 8, 16, 24].map(|offset| read(at + offset).unwrap_or(0));
            let Some(heap) = heap_of(at, words, STEPS[0], LARGEST_HEAP) else { break };
            heaps.push(heap);
            at = words[1];
        }
        heaps
    }

    /// Where the last chunk of its heap is.
    pub fn top(&self, read: Read<'_>) -> Option<u64> {
        read(self.bins.checked_sub(TOP)?)
    }

    /// The end of the main arena's heap and all before it that it had from the system, if its chunks lead
    /// from there to its top: it lies where the program's break is, or anywhere.
    pub fn main_heap(&self, read: Read<'_>) -> Option<Range<u64>> {
        let top = self.top(read)?;
        let system = read(self.bins.checked_add(SYSTEM)?)?;
        let end = top.checked_add(read(top.checked_add(8)?)? & !FLAGS)?;
        let start = end.checked_sub(system)?.next_multiple_of(HEAD);
        let mut at = start;
        for _ in 0..MOST_CHUNKS {
            if at == top {
                return Some(start..end);
            }
            let size = read(at.checked_add(8)?)? & !FLAGS;
            at = at.checked_add(size).filter(|&next| size >= SMALLEST && next <= top)?;
        }
        None
    }
}

fn is_chunk(at: u64) -> bool {
    at != 0 && at.is_multiple_of(HEAD) && at < heapattach_abi::region::ADDRESS_END
}

/// The heap that begins at `at`, a multiple of `step`, if these are its first words and it takes no more
/// than `most`.
fn heap_of(at: u64, words: [u64; 4], step: u64, most: u64) -> Option<Range<u64>> {
    let [arena, before, size, usable] = words;
    let is_heap = |at: u64| at != 0 && at.is_multiple_of(step);
    let own = arena & !(step - 1);
    let is_sound = is_heap(own)
        && (own == at || is_heap(before))
        && (before == 0 || is_heap(before))
        && size <= usable
        && (1..=most).contains(&usable)
        && usable.is_multiple_of(4096);
    is_sound.then(|| at..at + usable)
}

/// The heap that begins at `at`, a multiple of [`HEAP_STEP`], if these are its first words and
/// `limit` is where its memory ends.
pub fn heap_at(at: u64, words: [u64; 4], limit: u64) -> Option<Range<u64>> {
    heap_of(at, words, HEAP_STEP, HEAP_STEP).filter(|heap| heap.end <= limit)
}

#[cfg(test)]
#[path = "arena_tests.rs"]
mod tests;
