//! What is in a mailbox: requests, and what the program says of its memory. The target writes it at
//! any time; a request that is being written is met later, one that was overwritten never.

use heapattach_process::little_endian::{u32_at, u64_at};

/// What the program wants at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A check, and the thread waits for the moment to be taken.
    Check,
    /// That it is called so.
    Mark,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which mailbox, as they are known.
    pub mailbox: usize,
    /// Its number there.
    pub number: u32,
    /// What is wanted.
    pub wish: Wish,
    /// What the moment is called; text of the target.
    pub name: String,
}

/// What the program says of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Said {
    /// The block there is not lost.
    Ignore {
        /// Anywhere in it.
        at: u64,
    },
    /// What is kept there leads to blocks that are not lost.
    Root {
        /// Where it begins.
        start: u64,
        /// How long it is.
        bytes: u64,
    },
}

/// Something the program said, and which change of its entries that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What.
    pub said: Said,
    /// Another one of the same place has another.
    pub stamp: u64,
}

pub(super) const REQUESTS: u32 = 16;
pub(super) const REQUEST_BYTES: usize = 64;
pub(super) const ENTRIES_BYTES: usize = 1024 * ENTRY_BYTES;
const ENTRY_BYTES: usize = 24;
const NAME_AT: usize = 8;
/// The length of a block that is ignored.
const WHOLE: u64 = u64::MAX;

/// The requests from `read` to `head` that are whole, in their order; and how many were overwritten.
/// One that is being written ends the list.
pub(super) fn requests(bytes: &[u8], mailbox: usize, read: u32, head: u32) -> (Vec<Request>, u32) {
    let waiting = head.wrapping_sub(read);
    let lost = waiting.saturating_sub(REQUESTS);
    let mut found = Vec::new();
    for count in lost..waiting {
        let number = read.wrapping_add(count).wrapping_add(1);
        let index = usize::try_from(number.wrapping_sub(1) % REQUESTS).unwrap_or(0);
        let at = index * REQUEST_BYTES;
        let Some(bytes) = bytes.get(at..at + REQUEST_BYTES) else { break };
        if u32_at(bytes, 0) != Some(number) {
            break;
        }
        let wish = if u32_at(bytes, 4) == Some(1) { Wish::Check } else { Wish::Mark };
        let name = bytes[NAME_AT..].split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        found.push(Request { mailbox, number, wish, name });
    }
    (found, lost)
}

/// The entries that are whole.
pub(super) fn entries(bytes: &[u8]) -> impl Iterator<Item = Entry> {
    bytes.chunks_exact(ENTRY_BYTES).filter_map(|bytes| {
        let (key, length, stamp) = (u64_at(bytes, 0)?, u64_at(bytes, 8)?, u64_at(bytes, 16)?);
        let said = match length {
            WHOLE => Said::Ignore { at: !key },
            bytes => Said::Root { start: !key, bytes },
        };
        (key != 0 && stamp != 0 && length != 0).then_some(Entry { said, stamp })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(bytes: &mut [u8], number: u32, kind: u32, name: &[u8]) {
        let at = usize::try_from((number - 1) % REQUESTS).unwrap() * REQUEST_BYTES;
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        bytes[at + 4..at + 8].copy_from_slice(&kind.to_le_bytes());
        bytes[at + 8..at + 8 + name.len()].copy_from_slice(name);
    }

    #[test]
    fn requests_come_in_their_order_and_one_that_is_being_written_waits() {
        let mut bytes = vec![0; REQUESTS as usize * REQUEST_BYTES];
        post(&mut bytes, 16, 1, b"first");
        post(&mut bytes, 17, 2, b"second");
        let (found, lost) = requests(&bytes, 3, 15, 18);
        let told: Vec<_> = found.iter().map(|r| (r.number, r.wish, r.name.as_str())).collect();
        assert_eq!(told, [(16, Wish::Check, "first"), (17, Wish::Mark, "second")]);
        assert_eq!((lost, found[0].mailbox), (0, 3));
    }

    #[test]
    fn what_was_overwritten_is_counted_and_any_bytes_are_read() {
        let bytes = [0xff; REQUESTS as usize * REQUEST_BYTES];
        assert_eq!(requests(&bytes, 0, 0, 20), (Vec::new(), 4));
        assert_eq!(requests(&bytes, 0, 7, 6).1, u32::MAX - REQUESTS);
        assert!(requests(&[], 0, 0, 5).0.is_empty());
        let all: Vec<_> = requests(&bytes, 0, u32::MAX - 1, u32::MAX).0;
        assert!(all.iter().all(|request| request.name.chars().count() <= 56), "{all:?}");
    }

    #[test]
    fn entries_are_blocks_to_ignore_or_roots() {
        let words = |key: u64, length: u64, stamp: u64| [!key, length, stamp].map(u64::to_le_bytes);
        let all = [words(64, WHOLE, 1), words(96, 8, 2), words(128, 8, 0), words(!0, 8, 3)];
        let said: Vec<_> = entries(all.concat().as_flattened()).map(|entry| entry.said).collect();
        assert_eq!(said, [Said::Ignore { at: 64 }, Said::Root { start: 96, bytes: 8 }]);
    }
}
