//! Blocks that the program says are no leaks (`heapattach.h`). Pure.

use std::ops::Range;

use heapattach_injector::watch::mailbox::Said;

use crate::watch::spoken::Spoken;
use heapattach_profile::{Tick, ticks};
use heapattach_reach::{Block, Pointer, RootKind};

/// Something the program said, and when that was first seen.
pub type Heard = (Said, Tick);

/// A block is known so long after it was allocated: the reader of the records may have been kept
/// waiting.
const LATE: std::time::Duration = std::time::Duration::from_secs(2);

/// The ranges that it spoke of in between; of them none is older than what was said.
pub fn in_between(spoken: &Spoken) -> impl Iterator<Item = Heard> {
    let root =
        |range: Range<u64>| Said::Root { start: range.start, bytes: range.end - range.start };
    spoken.roots().map(move |range| (root(range), Tick::default()))
}

/// What holds the block that this address lies in.
pub fn whole(at: u64) -> Pointer {
    Pointer { word: at, root: RootKind::Announced, holds_whole: true }
}

/// What holds them. A block that is younger than what was said of its place is another one.
pub fn pointers(heard: &[Heard], blocks: &[(Block, Tick)]) -> Vec<Pointer> {
    if heard.is_empty() {
        return Vec::new();
    }
    let mut sorted: Vec<&(Block, Tick)> = blocks.iter().collect();
    sorted.sort_unstable_by_key(|(block, _)| block.at);
    let mut found = Vec::new();
    let ignored = heard.iter().filter_map(|(said, seen)| match *said {
        Said::Ignore { at } => Some((at..at.saturating_add(1), Some(*seen))),
        Said::Root { .. } => None,
    });
    for (range, seen) in ignored.chain(roots(heard).into_iter().map(|range| (range, None))) {
        // The one before may reach into it; a block of no bytes is where it begins.
        let first = sorted.partition_point(|(block, _)| block.at <= range.start).saturating_sub(1);
        let here = sorted[first..].iter().take_while(|(block, _)| block.at < range.end);
        let there = here.filter(|(block, _)| block.end() > range.start || block.at == range.start);
        let is_meant = |birth: Tick| seen.is_none_or(|seen| is_older(birth, seen));
        found.extend(there.filter(|(_, birth)| is_meant(*birth)).map(|(block, _)| whole(block.at)));
    }
    found
}

/// The ranges that are roots, ascending; no two of them overlap.
pub fn roots(heard: &[Heard]) -> Vec<Range<u64>> {
    let range = |(said, _): &Heard| match *said {
        Said::Root { start, bytes } => Some(start..start.saturating_add(bytes)),
        Said::Ignore { .. } => None,
    };
    let mut all: Vec<Range<u64>> = heard.iter().filter_map(range).collect();
    all.sort_unstable_by_key(|range| range.start);
    all.dedup_by(|next, last| {
        let overlaps = next.start <= last.end;
        last.end = if overlaps { last.end.max(next.end) } else { last.end };
        overlaps
    });
    all
}

/// Ticks go around: what is later by less than half of all is later.
fn is_older(birth: Tick, seen: Tick) -> bool {
    let late = u32::try_from(ticks(LATE)).unwrap_or(u32::MAX);
    Tick(seen.0.wrapping_add(late)).since(birth) < u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn blocks() -> Vec<(Block, Tick)> {
        let block = |at, size| (Block { at, size, stack: 0 }, Tick::after(Duration::from_secs(60)));
        vec![block(0x300, 16), block(0x100, 64), block(0x200, 0)]
    }

    fn held(heard: &[Heard]) -> Vec<u64> {
        pointers(heard, &blocks()).iter().map(|pointer| pointer.word).collect()
    }

    #[test]
    fn a_block_is_meant_by_any_of_its_addresses() {
        let now = Tick::after(Duration::from_secs(60));
        let ignore = |at| (Said::Ignore { at }, now);
        assert_eq!(held(&[ignore(0x13f), ignore(0x200), ignore(0x300)]), [0x100, 0x200, 0x300]);
        assert!(held(&[ignore(0xff), ignore(0x140), ignore(0x201), ignore(u64::MAX)]).is_empty());
    }

    #[test]
    fn a_block_that_came_later_is_another_one() {
        let at = |seconds| Tick::after(Duration::from_secs(seconds));
        assert_eq!(held(&[(Said::Ignore { at: 0x100 }, at(59))]), [0x100]);
        assert!(held(&[(Said::Ignore { at: 0x100 }, at(30))]).is_empty());
        // Just before and after the ticks go around.
        assert!(is_older(Tick(u32::MAX - 5), Tick(7)) && !is_older(Tick(70_000), Tick(u32::MAX)));
    }

    #[test]
    fn a_root_holds_every_block_that_it_meets() {
        let root = |start, bytes| (Said::Root { start, bytes }, Tick(0));
        assert_eq!(held(&[root(0x120, 0x1e1)]), [0x100, 0x200, 0x300]);
        assert!(held(&[root(0x140, 0xc0)]).is_empty());
        assert_eq!(held(&[root(0x301, u64::MAX)]), [0x300]);
        let ranges = roots(&[root(0x10, u64::MAX), (Said::Ignore { at: 1 }, Tick(0))]);
        assert_eq!((ranges.len(), ranges.first()), (1, Some(&(0x10..u64::MAX))));
        let many = [root(40, 10), root(10, 10), root(20, 5), root(12, 2), root(30, 1)];
        assert_eq!(roots(&many), [10..25, 30..31, 40..50]);
    }
}
