//! Blocks that a program allocates itself, out of memory that it has from elsewhere, and says so by valgrind's
//! client requests. They are kept apart from those of allocators, which they lie in.
//!
//! Everything here comes from the target: what is kept is bounded.

use std::collections::{BTreeMap, HashMap};

use heapattach_injector::watch::{Call, RequestHooks};
use heapattach_process::event::{Event, What};
use heapattach_profile::Tick;
use heapattach_reach::Block;

/// Blocks, and pools that a thread has named for its next block, that are kept.
const MOST: usize = 1 << 22;
const MOST_NAMED: usize = 1 << 12;

/// A block that lives.
#[derive(Clone, Copy, Debug)]
struct Announced {
    size: u64,
    stack: u32,
    birth: Tick,
    /// The pool that it is in; 0: none.
    pool: u64,
}

/// What was said so far.
#[derive(Debug, Default)]
pub struct AnnouncedBlocks {
    hooks: Option<RequestHooks>,
    blocks: BTreeMap<u64, Announced>,
    /// How many blocks there are of each pool that has some.
    pools: HashMap<u64, u64>,
    /// By ring and thread: the pool of the block that comes next.
    named: HashMap<(u8, u16), u64>,
    /// What could not be heeded.
    unheeded: u64,
    /// Checks that were requested.
    pub checks: u64,
}

impl AnnouncedBlocks {
    /// By what hooks the program is heard.
    pub fn hear_by(&mut self, hooks: Option<RequestHooks>) {
        self.hooks = hooks;
    }

    /// Whether the event was said by the program, and means nothing else. `writer` is the thread that its ring
    /// has now.
    #[inline]
    pub fn hear(&mut self, event: &Event, call: Call, writer: u16, now: impl Fn() -> u64) -> bool {
        let Some(hooks) = self.hooks else { return false };
        let thread = (event.origin.ring, writer);
        match event.what {
            What::Allocated { at, size, stack, .. } if call.hook == hooks.allocated => {
                let birth = Tick::of(now());
                let pool = self.named.remove(&thread).unwrap_or(0);
                let block = Announced { size, stack: stack.0, birth, pool };
                // Of threads that share a ring it is not known which pool their blocks are in.
                if thread.0 == 0 || self.blocks.len() >= MOST {
                    self.unheeded += 1;
                } else {
                    self.came(at.get(), block);
                }
                true
            }
            What::Freed { at, .. } if call.hook == hooks.freed => {
                self.remove(at.get());
                true
            }
            What::Freed { at, .. } if call.hook == hooks.pool => {
                if self.named.len() < MOST_NAMED {
                    self.named.insert(thread, at.get());
                }
                true
            }
            What::Freed { at, .. } if call.hook == hooks.destroyed => {
                if self.pools.remove(&at.get()).is_some() {
                    self.blocks.retain(|_, block| block.pool != at.get());
                }
                true
            }
            What::Allocated { at, size, .. } if call.hook == hooks.trimmed => {
                if let Some(pool) = self.named.remove(&thread) {
                    self.trim(pool, at.get(), size);
                }
                true
            }
            What::Freed { at, .. } if call.hook == hooks.moved => {
                if let Some(pool) = self.named.remove(&thread) {
                    self.rename(pool, at.get());
                }
                true
            }
            What::Freed { .. } if call.hook == hooks.checked => {
                self.checks += 1;
                true
            }
            What::Allocated { at, size, .. } if !self.blocks.is_empty() => {
                self.forget(at.get(), size);
                false
            }
            What::Mapped { at, length, .. } if !self.blocks.is_empty() => {
                self.forget(at.get(), length);
                false
            }
            _ => false,
        }
    }

    fn came(&mut self, at: u64, block: Announced) {
        self.remove(at);
        if block.pool != 0 {
            *self.pools.entry(block.pool).or_default() += 1;
        }
        self.blocks.insert(at, block);
    }

    fn remove(&mut self, at: u64) {
        let Some(block) = self.blocks.remove(&at) else { return };
        if let Some(blocks) = self.pools.get_mut(&block.pool) {
            *blocks -= 1;
            if *blocks == 0 {
                self.pools.remove(&block.pool);
            }
        }
    }

    /// Of the blocks of a pool only what is in this range stays.
    fn trim(&mut self, pool: u64, start: u64, bytes: u64) {
        if !self.pools.contains_key(&pool) {
            return;
        }
        let end = start.saturating_add(bytes);
        let own = self.blocks.iter().filter(|(_, block)| block.pool == pool);
        let own: Vec<(u64, Announced)> = own.map(|(&at, &block)| (at, block)).collect();
        for (at, block) in own {
            let block_end = at.saturating_add(block.size);
            let (first, last) = (at.max(start), block_end.min(end));
            if (first, last) == (at, block_end) {
                continue;
            }
            self.remove(at);
            if first < last {
                self.came(first, Announced { size: last - first, ..block });
            }
        }
    }

    /// A pool has another name from here on.
    fn rename(&mut self, pool: u64, other: u64) {
        if let Some(count) = self.pools.remove(&pool) {
            let own = self.blocks.values_mut().filter(|block| block.pool == pool);
            own.for_each(|block| block.pool = other);
            *self.pools.entry(other).or_default() += count;
        }
    }

    /// An allocator has the memory again: what the program had there is gone, whether it said so or not.
    fn forget(&mut self, at: u64, size: u64) {
        let end = at.saturating_add(size.max(1));
        while let Some((&block, _)) = self.blocks.range(at..end).next() {
            self.remove(block);
        }
    }

    /// Adds them to the blocks of allocators, which end where the first of them begins; where it begins at
    /// their start, they are not judged.
    pub fn add_to(&self, blocks: &mut Vec<(Block, Tick)>) {
        if self.blocks.is_empty() {
            return;
        }
        for (block, _) in blocks.iter_mut() {
            let end = block.at.saturating_add(block.size);
            if let Some((&inner, _)) = self.blocks.range(block.at..end).next() {
                block.size = inner - block.at;
            }
        }
        blocks.retain(|(block, _)| block.size != 0 || !self.blocks.contains_key(&block.at));
        let mut announced = self.blocks.iter().peekable();
        while let Some((&at, block)) = announced.next() {
            // Pools in blocks of pools.
            let end = announced.peek().map_or(u64::MAX, |(next, _)| **next);
            let size = block.size.min(end - at);
            blocks.push((Block { at, size, stack: block.stack }, block.birth));
        }
    }

    /// What is to be said of it.
    pub fn note(&self) -> Option<String> {
        let many = self.unheeded;
        (many > 0).then(|| {
            format!(
                "{many} blocks that the program announces to valgrind are not judged: threads share a ring, \
                 or there were too many of them"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use heapattach_process::{
        addr::RemoteAddr,
        event::{Origin, StackId},
    };

    use super::*;

    const HOOKS: RequestHooks = RequestHooks {
        allocated: 58,
        freed: 1,
        pool: 2,
        destroyed: 3,
        checked: 4,
        trimmed: 59,
        moved: 5,
    };

    fn heard() -> AnnouncedBlocks {
        let mut all = AnnouncedBlocks::default();
        all.hear_by(Some(HOOKS));
        all
    }

    fn hear(all: &mut AnnouncedBlocks, ring: u8, hook: usize, what: What) -> bool {
        let event = Event { stamp: 1, origin: Origin { ring, ..Origin::default() }, what };
        all.hear(&event, Call { hook, stack: StackId(0) }, 1, || 7)
    }

    fn came(all: &mut AnnouncedBlocks, ring: u8, hook: usize, at: u64, size: u64) -> bool {
        let (at, stack) = (RemoteAddr::new(at), StackId(5));
        hear(all, ring, hook, What::Allocated { at, size, stack, interval: 1 })
    }

    fn said(all: &mut AnnouncedBlocks, ring: u8, hook: usize, at: u64) -> bool {
        hear(all, ring, hook, What::Freed { at: RemoteAddr::new(at), block: None })
    }

    fn places(all: &AnnouncedBlocks, others: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let block = |&(at, size): &(u64, u64)| (Block { at, size, stack: 1 }, Tick(0));
        let mut blocks: Vec<_> = others.iter().map(block).collect();
        all.add_to(&mut blocks);
        blocks.iter().map(|(block, _)| (block.at, block.size)).collect()
    }

    #[test]
    fn blocks_come_and_go_and_a_pool_takes_all_of_its_own_along() {
        let mut all = heard();
        assert!(came(&mut all, 1, HOOKS.allocated, 0x1000, 24));
        assert!(said(&mut all, 1, HOOKS.pool, 0x9001));
        assert!(came(&mut all, 2, HOOKS.allocated, 0x2000, 24), "another thread's");
        assert!(came(&mut all, 1, HOOKS.allocated, 0x3000, 8));
        assert!(said(&mut all, 2, HOOKS.destroyed, 0x9000), "another pool");
        assert_eq!(places(&all, &[]), [(0x1000, 24), (0x2000, 24), (0x3000, 8)]);
        said(&mut all, 2, HOOKS.destroyed, 0x9001);
        said(&mut all, 2, HOOKS.freed, 0x1000);
        assert_eq!(places(&all, &[]), [(0x2000, 24)]);
        assert!(!said(&mut all, 1, 0, 0x2000), "a free of malloc's");
        assert_eq!(all.note(), None);
        assert!(said(&mut all, 1, HOOKS.checked, 0x7000) && all.checks == 1);
    }

    #[test]
    fn a_pool_is_trimmed_and_has_another_name() {
        let mut all = heard();
        for at in [0x1000, 0x1100, 0x1200] {
            said(&mut all, 1, HOOKS.pool, 0x9000);
            came(&mut all, 1, HOOKS.allocated, at, 0x80);
        }
        said(&mut all, 1, HOOKS.pool, 0x9000);
        assert!(came(&mut all, 1, HOOKS.trimmed, 0x1020, 0x100));
        assert_eq!(places(&all, &[]), [(0x1020, 0x60), (0x1100, 0x20)]);
        said(&mut all, 1, HOOKS.pool, 0x9000);
        assert!(said(&mut all, 1, HOOKS.moved, 0x9100));
        said(&mut all, 1, HOOKS.destroyed, 0x9000);
        assert_eq!(places(&all, &[]).len(), 2, "it is another one");
        said(&mut all, 1, HOOKS.destroyed, 0x9100);
        assert_eq!(places(&all, &[]), []);
    }

    #[test]
    fn what_holds_announced_blocks_ends_at_the_first_of_them() {
        let mut all = heard();
        came(&mut all, 1, HOOKS.allocated, 0x1010, 8);
        came(&mut all, 1, HOOKS.allocated, 0x1020, 8);
        came(&mut all, 1, HOOKS.allocated, 0x2000, 8);
        let told = places(&all, &[(0x1000, 0x100), (0x2000, 0x100), (0x3000, 0)]);
        assert_eq!(told, [(0x1000, 0x10), (0x3000, 0), (0x1010, 8), (0x1020, 8), (0x2000, 8)]);
        came(&mut all, 1, HOOKS.allocated, 0x1008, 0x10);
        assert_eq!(places(&all, &[])[..2], [(0x1008, 8), (0x1010, 8)], "one in another");
    }

    #[test]
    fn what_an_allocator_has_again_is_no_block_of_the_program() {
        let mut all = heard();
        came(&mut all, 1, HOOKS.allocated, 0x1010, 8);
        assert!(!came(&mut all, 1, 0, 0x1000, 0x11), "malloc");
        assert_eq!(places(&all, &[]), []);
    }

    #[test]
    fn blocks_of_threads_that_share_a_ring_are_not_judged() {
        let mut all = heard();
        assert!(came(&mut all, 0, HOOKS.allocated, 0x1000, 24));
        assert_eq!(places(&all, &[]), []);
        assert!(all.note().unwrap().starts_with("1 blocks"));
        assert!(
            !came(&mut AnnouncedBlocks::default(), 1, HOOKS.allocated, 1, 1),
            "nothing is heard"
        );
    }
}
