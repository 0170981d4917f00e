//! How much memory what a recording says in words may take: a few kilobytes can unpack to gigabytes,
//! and three bytes of JSON can become a struct of hundreds.

use std::mem::size_of;

use crate::format::block::Content;
use heapattach_ledger::Mark;
use heapattach_ledger::{Function, Location, Moment, Thread};
use heapattach_symbols::Known;

/// Of all that is kept at once. That of a million functions, with lines, is less.
const MOST: u64 = 1 << 30;
/// A byte of text can be a number of eight, and vectors have room for twice what is in them.
const PER_BYTE: u64 = 4;
const ROOM: u64 = 2;

/// What is kept by now.
#[derive(Debug, Default)]
pub struct Budget {
    kept: u64,
    /// Of contents that a later one replaces.
    replaced: [u64; 3],
}

impl Budget {
    /// Asks for leave to keep a content in the place of an earlier one, or besides.
    pub fn take(&mut self, content: Content, text: &[u8]) -> Option<()> {
        let element = match content {
            // Bounded by themselves.
            Content::Rows | Content::Changes | Content::Snapshot => return Some(()),
            Content::About => size_of::<String>(),
            Content::Modules => size_of::<Known>(),
            Content::Threads => size_of::<Thread>(),
            Content::Moments => size_of::<Moment>(),
            Content::Marks => size_of::<Mark>(),
            Content::Names => size_of::<Location>().max(size_of::<Function>()),
        };
        let weight = weight(text, element as u64);
        match content {
            Content::About => self.replaced[0] = weight,
            Content::Modules => self.replaced[1] = weight,
            Content::Threads => self.replaced[2] = weight,
            _ => self.kept = self.kept.saturating_add(weight),
        }
        let all = self.replaced.iter().fold(self.kept, |sum, more| sum.saturating_add(*more));
        (all <= MOST).then_some(())
    }
}

/// What `text` can become at most: every struct begins with one of these two.
fn weight(text: &[u8], element: u64) -> u64 {
    let begins = text.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() as u64;
    begins * element * ROOM + text.len() as u64 * PER_BYTE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_is_kept_once_and_all_else_adds_up() {
        let text = vec![b'x'; 1 << 20];
        let mut budget = Budget::default();
        for _ in 0..300 {
            assert!(budget.take(Content::Modules, &text).is_some());
        }
        let taken = (0..1000).take_while(|_| budget.take(Content::Names, &text).is_some()).count();
        assert!((200..256).contains(&taken), "{taken}");
    }

    #[test]
    fn many_small_things_weigh_as_much_as_they_become() {
        let empty = b"{},".repeat((16 << 20) / 3);
        assert!(Budget::default().take(Content::Moments, &empty).is_none());
        assert!(Budget::default().take(Content::Rows, &empty).is_some());
    }
}
