//! Locks that the kernel is to give up when a thread ends: it follows a list from lock to lock, and
//! may be the only one that still knows of them. Pure, but for what it is given to read with.

use heapattach_process::root::RootKind;

use super::area::Pointer;

/// As many as the kernel follows.
const MOST: usize = 2048;
/// The lowest bit of a link tells of the kind of lock.
const KIND: u64 = 1;
/// In the head: a link, a distance, and a link to a lock that is just being taken.
const PENDING: u64 = 16;

/// The locks of a list, each of which means the block that it is in.
pub fn locks(head: u64, read: impl Fn(u64) -> Option<u64>) -> Vec<Pointer> {
    let mut locks = Vec::new();
    let pointer = |word| Pointer { word, holder: RootKind::Kernel, is_whole: true };
    let pending = head.checked_add(PENDING).and_then(&read).unwrap_or(0) & !KIND;
    let mut at = if head == 0 { 0 } else { read(head).unwrap_or(0) & !KIND };
    // The list ends where it began; one that never does is cut off.
    while at != 0 && at != head && locks.len() < MOST {
        locks.push(pointer(at));
        at = read(at).unwrap_or(0) & !KIND;
    }
    locks.extend((pending != 0 && head != 0).then(|| pointer(pending)));
    locks
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn words(memory: &[(u64, u64)]) -> Vec<u64> {
        let memory: HashMap<u64, u64> = memory.iter().copied().collect();
        locks(0x1000, |at| memory.get(&at).copied()).iter().map(|lock| lock.word).collect()
    }

    #[test]
    fn follows_the_list_until_it_is_back_at_its_head() {
        let list = [(0x1000, 0x5020), (0x5020, 0x6021), (0x6020, 0x1000), (0x1010, 0x7001)];
        assert_eq!(words(&list), [0x5020, 0x6020, 0x7000]);
        assert_eq!(words(&[(0x1000, 0x1000), (0x1010, 0)]), []);
    }

    #[test]
    fn a_list_that_leads_nowhere_or_never_ends_is_cut_off() {
        assert_eq!(words(&[]), []);
        assert_eq!(words(&[(0x1000, 0x9000)]), [0x9000]);
        assert_eq!(words(&[(0x1000, 0x9000), (0x9000, 0x9000)]).len(), MOST);
        assert!(locks(0, |_| Some(8)).is_empty());
    }
}
