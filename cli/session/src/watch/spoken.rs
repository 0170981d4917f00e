//! What a program says in the middle of its allocations, so that it is heard in its place among them: by
//! calls of `munmap` that the kernel refuses, since the address lies within a page. The hooks record
//! them as they record any.
//!
//! ```text
//! munmap(value | 1, word)      word: which of these, the value with its lowest three bits cut off
//! ```
//!
//! Everything here comes from the target: what is kept is bounded.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
};

use heapattach_process::{
    event::{Event, What},
    spoken::Word,
};

/// Addresses, ranges and threads that are kept.
const MOST: usize = 1 << 20;
const MOST_ROOTS: usize = 1 << 14;
/// Refusals that are waited for: a thread has one at a time.
const MOST_OPEN: usize = 1 << 12;

/// What was said so far.
#[derive(Debug, Default)]
pub struct Spoken {
    /// How deep each thread is in parts in which it wants nothing reported, by ring and thread.
    depths: HashMap<(u8, u16), u64>,
    /// Addresses in blocks that are not leaked.
    ignored: BTreeSet<u64>,
    /// By where they begin: ranges that hold pointers.
    roots: HashMap<u64, u64>,
    /// By thread: where the range begins whose length comes next.
    begun: HashMap<(u8, u16), u64>,
    /// Stamps of what was said, whose refusal follows.
    open: HashSet<u64>,
    /// Checks that were requested.
    pub checks: u64,
    /// Words that were heard, and of these the ones of threads that cannot be told apart, or that found
    /// no room.
    pub heard: u64,
    unheeded: u64,
}

impl Spoken {
    /// Whether the event was a word, and means nothing else; and what it means for blocks. `writer` is
    /// the thread that its ring has now.
    #[inline]
    pub fn hear(&mut self, event: &Event, writer: u16) -> bool {
        match event.what {
            What::Allocated { at, size, .. } => {
                if !(self.ignored.is_empty() && self.depths.is_empty()) {
                    self.came(at.get(), size, (event.origin.ring, writer));
                }
                false
            }
            What::Unmapped { at, length, .. } if at.get() & 7 == 1 => match Word::of(length) {
                Some(word) => {
                    self.take(word, at.get() & !7, event.stamp, (event.origin.ring, writer));
                    true
                }
                None => false,
            },
            What::Restored { announced } => self.open.remove(&announced),
            _ => false,
        }
    }

    /// A block came: what was said of an earlier one at its place is over.
    fn came(&mut self, at: u64, size: u64, thread: (u8, u16)) {
        let end = at.saturating_add(size.max(1));
        while let Some(&old) = self.ignored.range(at..end).next() {
            self.ignored.remove(&old);
        }
        if self.depths.contains_key(&thread) {
            self.ignore(at);
        }
    }

    fn ignore(&mut self, at: u64) {
        match self.ignored.len() < MOST {
            true => drop(self.ignored.insert(at)),
            false => self.unheeded += 1,
        }
    }

    fn take(&mut self, word: Word, value: u64, stamp: u64, thread: (u8, u16)) {
        self.heard += 1;
        if self.open.len() < MOST_OPEN {
            self.open.insert(stamp);
        }
        // Of threads that share a ring it is not known whose word it is.
        let is_of_thread = !matches!(word, Word::Ignore | Word::NoRoot | Word::Check);
        if is_of_thread && thread.0 == 0 || self.depths.len() + self.begun.len() >= MOST_OPEN {
            return self.unheeded += 1;
        }
        match word {
            Word::Begin => *self.depths.entry(thread).or_default() += 1,
            Word::End => {
                let depth = self.depths.get_mut(&thread);
                let is_over = depth.is_some_and(|depth| {
                    *depth -= 1;
                    *depth == 0
                });
                if is_over {
                    self.depths.remove(&thread);
                }
            }
            Word::Ignore => self.ignore(value),
            Word::Root => drop(self.begun.insert(thread, value)),
            Word::Bytes => {
                if let Some(start) = self.begun.remove(&thread) {
                    match self.roots.len() < MOST_ROOTS {
                        true => drop(self.roots.insert(start, value)),
                        false => self.unheeded += 1,
                    }
                }
            }
            Word::NoRoot => drop(self.roots.remove(&value)),
            Word::Check => self.checks += 1,
        }
    }

    /// Addresses in blocks that are not leaked, nor what they lead to.
    pub fn ignored(&self) -> impl Iterator<Item = u64> {
        self.ignored.iter().copied()
    }

    /// Ranges that hold pointers.
    pub fn roots(&self) -> impl Iterator<Item = Range<u64>> {
        self.roots.iter().map(|(start, bytes)| *start..start.saturating_add(*bytes))
    }

    /// What is to be said of it.
    pub fn note(&self) -> Option<String> {
        let many = self.unheeded;
        (many > 0).then(|| {
            format!(
                "{many} times what the program says of its blocks was not heeded: threads share a ring, or \
                 there was too much of it"
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

    fn event(ring: u8, stamp: u64, what: What) -> Event {
        Event { stamp, origin: Origin { ring, ..Origin::default() }, what }
    }

    fn said(spoken: &mut Spoken, ring: u8, word: Word, value: u64) -> bool {
        let (at, stack) = (RemoteAddr::new(value | 1), StackId(0));
        let what = What::Unmapped { at, length: word.number(), stack };
        spoken.hear(&event(ring, 7, what), 1)
    }

    fn came(spoken: &mut Spoken, ring: u8, at: u64) {
        let (at, stack) = (RemoteAddr::new(at), StackId(1));
        let what = What::Allocated { at, size: 16, stack, interval: 1 };
        assert!(!spoken.hear(&event(ring, 9, what), 1));
    }

    #[test]
    fn what_a_thread_allocates_between_begin_and_end_is_ignored() {
        let mut spoken = Spoken::default();
        came(&mut spoken, 1, 0x100);
        assert!(said(&mut spoken, 1, Word::Begin, 0));
        assert!(spoken.hear(&event(1, 8, What::Restored { announced: 7 }), 1), "its refusal");
        assert!(!spoken.hear(&event(1, 8, What::Restored { announced: 7 }), 1));
        said(&mut spoken, 1, Word::Begin, 0);
        came(&mut spoken, 1, 0x200);
        came(&mut spoken, 2, 0x300);
        said(&mut spoken, 1, Word::End, 0);
        came(&mut spoken, 1, 0x400);
        said(&mut spoken, 1, Word::End, 0);
        said(&mut spoken, 1, Word::End, 0);
        came(&mut spoken, 1, 0x500);
        assert_eq!(spoken.ignored().collect::<Vec<_>>(), [0x200, 0x400]);
        // Another block at the place.
        came(&mut spoken, 2, 0x200);
        assert_eq!(spoken.ignored().collect::<Vec<_>>(), [0x400]);
    }

    #[test]
    fn a_block_is_ignored_by_any_of_its_addresses_until_another_is_there() {
        let mut spoken = Spoken::default();
        said(&mut spoken, 0, Word::Ignore, 0x108);
        came(&mut spoken, 1, 0x110);
        assert_eq!(spoken.ignored().collect::<Vec<_>>(), [0x108]);
        came(&mut spoken, 1, 0x100);
        assert_eq!(spoken.ignored().count(), 0);
    }

    #[test]
    fn a_root_is_said_by_two_words() {
        let mut spoken = Spoken::default();
        said(&mut spoken, 1, Word::Root, 0x1000);
        said(&mut spoken, 2, Word::Bytes, 64);
        assert_eq!(spoken.roots().count(), 0, "of another thread");
        said(&mut spoken, 1, Word::Bytes, 64);
        assert_eq!(
            spoken.roots().collect::<Vec<_>>(),
            [std::ops::Range { start: 0x1000, end: 0x1040 }]
        );
        said(&mut spoken, 2, Word::NoRoot, 0x1000);
        assert_eq!(spoken.roots().count(), 0);
        said(&mut spoken, 0, Word::Begin, 0);
        assert!(spoken.note().is_some(), "threads that share a ring");
    }

    #[test]
    fn what_is_no_word_is_what_it_is() {
        let mut spoken = Spoken::default();
        let stack = StackId(0);
        for (at, length) in
            [(0x1000, Word::Begin.number()), (1, 4096), (1, 0), (3, Word::End.number())]
        {
            let what = What::Unmapped { at: RemoteAddr::new(at), length, stack };
            assert!(!spoken.hear(&event(1, 1, what), 1), "{at} {length}");
        }
        assert_eq!(spoken.heard, 0);
    }
}
