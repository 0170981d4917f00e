//! A pool: some pages that are cut into blocks of one size.

use heapattach_process::little_endian::{u32_at, u64_at};

/// What comes before its first block.
pub(super) const HEAD: u64 = 48;
/// Sizes are multiples of this.
const STEP: u64 = 16;
/// So many sizes there are.
pub(super) const CLASSES: u64 = 32;

/// What the first bytes of a pool say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pool {
    /// Blocks in use.
    pub count: u64,
    /// The first block of its free list, or 0.
    pub free: u64,
    /// The pool behind it in its list.
    pub next: u64,
    /// The pool before it.
    pub previous: u64,
    /// The number of its arena.
    pub arena: u64,
    /// The number of its size.
    pub class: u64,
    /// Where the blocks begin that were never allocated.
    pub uncut: u64,
    /// Where the last block begins.
    pub last: u64,
}

impl Pool {
    /// From its bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let half = |at| u32_at(bytes, at).map(u64::from);
        Some(Self {
            count: half(0)?,
            free: u64_at(bytes, 8)?,
            next: u64_at(bytes, 16)?,
            previous: u64_at(bytes, 24)?,
            arena: half(32)?,
            class: half(36)?,
            uncut: half(40)?,
            last: half(44)?,
        })
    }

    /// The size of its blocks.
    pub fn size(&self) -> u64 {
        (self.class + 1) * STEP
    }

    /// How long it is, if its numbers agree.
    pub fn length(&self) -> Option<u64> {
        let length = self.last + self.size();
        let is_one = self.class < CLASSES && matches!(length, 0x1000 | 0x4000);
        let is_cut = self.uncut >= HEAD
            && (self.uncut - HEAD).is_multiple_of(self.size())
            && self.uncut <= self.last + self.size();
        (is_one && is_cut).then_some(length)
    }

    /// Blocks that were allocated once.
    pub fn cut(&self) -> u64 {
        self.uncut.saturating_sub(HEAD) / self.size()
    }

    /// Whether no block of it can be allocated.
    pub fn is_full(&self) -> bool {
        self.free == 0 && self.uncut > self.last
    }

    /// By the number of a block: whether it is free. `bytes` is the pool, which lies at `at`. None if the
    /// list leads anywhere else, or to a block twice.
    pub fn free_blocks(&self, at: u64, bytes: &[u8]) -> Option<Vec<bool>> {
        let cut = self.cut();
        let mut free = vec![false; usize::try_from(cut).ok()?];
        let mut block = self.free;
        while block != 0 {
            let offset = block.checked_sub(at)?;
            let place = offset.checked_sub(HEAD).filter(|rest| rest.is_multiple_of(self.size()))?;
            let is_free = free.get_mut(usize::try_from(place / self.size()).ok()?)?;
            if std::mem::replace(is_free, true) {
                return None;
            }
            block = u64_at(bytes, usize::try_from(offset).ok()?)?;
        }
        Some(free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_list_that_leads_elsewhere_or_in_a_circle_is_none() {
        let pool = Pool { class: 1, uncut: HEAD + 32 * 4, last: 0x1000 - 32, ..Pool::default() };
        assert_eq!((pool.length(), pool.cut()), (Some(0x1000), 4));
        let at = 0x7000;
        let mut bytes = vec![0; 0x1000];
        let block = |number: u64| at + HEAD + number * 32;
        let pool = Pool { free: block(2), ..pool };
        assert_eq!(pool.free_blocks(at, &bytes), Some(vec![false, false, true, false]));
        for (next, expected) in [
            (block(0), Some(vec![true, false, true, false])),
            (block(2), None),
            (block(1) + 8, None),
            (block(4), None),
            (1, None),
        ] {
            let place = usize::try_from(block(2) - at).unwrap();
            bytes[place..place + 8].copy_from_slice(&next.to_le_bytes());
            assert_eq!(pool.free_blocks(at, &bytes), expected, "{next:#x}");
        }
    }

    #[test]
    fn numbers_that_do_not_agree_are_no_pool() {
        let pool = Pool { class: 1, uncut: HEAD + 32 * 4, last: 0x1000 - 32, ..Pool::default() };
        for wrong in [
            Pool { class: 32, ..pool },
            Pool { class: 2, ..pool },
            Pool { uncut: HEAD + 31, ..pool },
            Pool { uncut: 0x2000 + HEAD, ..pool },
            Pool { last: u64::from(u32::MAX), ..pool },
            Pool { uncut: 0, ..pool },
        ] {
            assert_eq!(wrong.length(), None, "{wrong:?}");
        }
    }
}
