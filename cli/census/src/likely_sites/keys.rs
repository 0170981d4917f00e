//! What a block is like: its class and size, and those of what holds it, of what holds that, and once more.

use std::{ops::Range, time::Instant};

use heapattach_reach::Blocks;

use crate::{Moment, Window};

/// A block by itself, and by one, two and three holders.
pub const LEVELS: usize = 4;
/// What a key is the hash of; equal ones are of blocks that are alike.
pub type Key = u64;

/// In a larger block whose class is not known the place of a pointer says nothing, nor does its size.
const LARGE: u64 = 512;
/// Behind these bytes no block is looked through.
const MOST_READ: u64 = 1 << 20;
const WINDOW: usize = 1 << 20;
/// The clock is looked at after so many holders.
const HOLDERS: usize = 1024;
const NONE: u32 = u32::MAX;

/// Kinds of holders.
const VARIABLE: u64 = 1;
const ARRAY: u64 = 2;
const NOTHING: u64 = 3;

/// The keys of all blocks.
#[derive(Debug)]
pub struct Keys {
    own: Vec<Key>,
    /// The holder, and where in it the pointer lies: of several the one that hashes lowest, wherever they lie.
    held: Vec<(Key, u32)>,
    /// Whether there was no time for all.
    pub is_over: bool,
}

impl Keys {
    /// Of blocks; `class` tells that of one, if it is known. What is in `variables` is looked through, too.
    pub fn of(
        moment: &Moment<'_>,
        blocks: &Blocks,
        variables: &[Range<u64>],
        class: &dyn Fn(u32) -> Option<u64>,
        end: Instant,
    ) -> Self {
        let numbered = (0..).zip(blocks.all());
        let own = numbered.map(|(number, block)| match class(number) {
            Some(class) => mix(mix(class, block.size), 1),
            None => mix(block.size, 0),
        });
        let own: Vec<Key> = own.collect();
        let held = vec![(Key::MAX, NONE); own.len()];
        let mut keys = Self { own, held, is_over: false };
        let mut window = Window::new(moment, 0..u64::MAX, WINDOW);
        for range in variables {
            keys.look(&mut window, blocks, range, NONE, &|at| mix(VARIABLE, at));
        }
        for (number, block) in (0..).zip(blocks.all()) {
            let own = keys.own[number as usize];
            let range = block.at..block.end().min(block.at.saturating_add(MOST_READ));
            match class(number).is_some() || block.size <= LARGE {
                true => {
                    keys.look(&mut window, blocks, &range, number, &|at| mix(own, at - block.at))
                }
                false => keys.look(&mut window, blocks, &range, number, &|_| ARRAY),
            }
            if (number as usize).is_multiple_of(HOLDERS) && Instant::now() > end {
                keys.is_over = true;
                break;
            }
        }
        keys
    }

    fn look(
        &mut self,
        window: &mut Window<'_, '_>,
        blocks: &Blocks,
        range: &Range<u64>,
        holder: u32,
        place: &dyn Fn(u64) -> Key,
    ) {
        let span = blocks.span();
        let mut at = range.start.next_multiple_of(8);
        while at.saturating_add(8) <= range.end {
            let Some(word) = window.word(at) else { return };
            if span.contains(&word)
                && let Some(block) = blocks.containing(word)
                && block != holder
                && let Some(held) = self.held.get_mut(block as usize)
            {
                *held = (*held).min((place(at), holder));
            }
            at += 8;
        }
    }

    /// What a block is like, by itself first.
    pub fn levels(&self, block: u32) -> [Key; LEVELS] {
        let mut levels = [self.own.get(block as usize).copied().unwrap_or_default(); LEVELS];
        let mut at = block;
        for level in 1..LEVELS {
            let held = self.held.get(at as usize).copied().filter(|held| held.0 != Key::MAX);
            let (place, holder) = held.unwrap_or((NOTHING, NONE));
            levels[level] = mix(levels[level - 1], place);
            at = holder;
        }
        levels
    }
}

/// Two numbers as one that looks like chance.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut word = a.rotate_left(23) ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use heapattach_reach::Block;

    use super::*;
    use crate::synthetic::Synthetic;

    const HEAP: u64 = 0x80_0000;

    #[test]
    fn blocks_are_alike_by_what_holds_them_wherever_that_lies() {
        let mut memory = Synthetic::default();
        memory.map(HEAP..HEAP + 0x1000);
        // Two of one class hold the third and the fourth at one place; these hold one each; nothing holds the last.
        let [first, second] = [HEAP, HEAP + 0x40];
        for (at, word) in [
            (first + 8, HEAP + 0x80),
            (second + 8, HEAP + 0xc4),
            (HEAP + 0x80, HEAP + 0x100),
            (HEAP + 0xc8, HEAP + 0x140),
            // To themselves: that says nothing.
            (HEAP + 0x100, HEAP + 0x100),
        ] {
            memory.write(at, word);
        }
        let block = |at| Block { at: HEAP + at, size: 48, stack: 0 };
        let blocks = Blocks::new([0, 0x40, 0x80, 0xc0, 0x100, 0x140, 0x180].map(block).into());
        let class = |number: u32| (number < 2).then_some(7);
        let end = Instant::now() + Duration::from_secs(60);
        let keys = Keys::of(&memory.moment(), &blocks, &[], &class, end);
        let [a, b, c, d, e, f, g] = [0, 1, 2, 3, 4, 5, 6].map(|block| keys.levels(block));
        assert_eq!((a, c), (b, d));
        assert!(a[0] != c[0] && c[0] == g[0] && c[1] != g[1]);
        // Held by alike blocks, at another place in them.
        assert!(e[0] == f[0] && e[1] != f[1]);
        assert_eq!(mix(mix(e[0], mix(c[0], 0)), mix(a[0], 8)), e[2]);
    }
}
