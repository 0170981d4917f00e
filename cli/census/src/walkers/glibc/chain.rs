//! Follows sizes from chunk to chunk.

use std::ops::Range;

use crate::{Moment, Window};

use super::{BEFORE_IN_USE, FLAGS, HEAD, SMALLEST, chunks::Segment, cut};

/// So much is read at once.
const WINDOW: usize = 1 << 20;

/// How a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Where it was to lead.
    Arrived,
    /// At a size that marks the end of what an arena has there.
    Fence,
    /// At a chunk whose size cannot be: this one.
    Broken(u64),
    /// At memory that cannot be read.
    Unreadable,
}

/// A chain of an arena, where it ended and how.
pub struct Chain {
    /// The chunks.
    pub segment: Segment,
    /// Where it ended.
    pub at: u64,
    /// How.
    pub ending: Ending,
}

impl Chain {
    /// Where a thread was stopped while it cut a block off the top, or gave one to it: the last head may still
    /// name all that the memory has left, to `end`. What lies before the top is the block of that call.
    pub fn end_at_top(&mut self, top: u64, end: u64) {
        if let Ending::Broken(size) = self.ending
            && self.at.checked_add(size) == Some(end)
        {
            if self.at < top {
                self.segment.push(self.at, top, true);
                self.at = top;
            }
            self.ending = Ending::Arrived;
        }
    }
}

/// The chain from `range.start`, as it is where a thread may be in the middle of cutting a chunk: then the rest is
/// the first that the list of unsorted chunks has.
pub fn follow_changing(
    moment: &Moment<'_>,
    range: &Range<u64>,
    is_top: bool,
    arena: u32,
    rest: Option<u64>,
) -> Chain {
    let cut = rest.and_then(|rest| cut::follow(moment, range, is_top, arena, rest));
    cut.unwrap_or_else(|| follow(moment, range, is_top, arena))
}

/// The chain from `range.start` that is to lead to `range.end`; the end is the top of an arena, or of its
/// memory there.
pub fn follow(moment: &Moment<'_>, range: &Range<u64>, is_top: bool, arena: u32) -> Chain {
    let mut segment = Segment::new(arena, range.start);
    // The head of the top tells whether the last chunk is in use.
    let within = range.start..range.end.saturating_add(HEAD);
    let mut window = Window::new(moment, within, WINDOW);
    let mut at = range.start;
    let Some(mut head) = at.checked_add(8).and_then(|head| window.word(head)) else {
        return Chain { segment, at, ending: Ending::Unreadable };
    };
    let ending = loop {
        if at >= range.end {
            break Ending::Arrived;
        }
        let size = head & !FLAGS;
        if size == HEAD || size == 0 {
            // What comes before a size of nothing is a fence, too.
            if size == 0 && !is_top {
                segment.pop();
                at = segment.range.end;
            }
            break Ending::Fence;
        }
        if size < SMALLEST || !size.is_multiple_of(HEAD) || size > range.end - at {
            break Ending::Broken(size);
        }
        let next = at + size;
        // Where it is free; the window may be past them once the next head is read.
        let links = window.pair(at + HEAD);
        let Some(after) = window.word(next + 8) else {
            break Ending::Unreadable;
        };
        let is_used = after & BEFORE_IN_USE != 0;
        segment.push(at, next, is_used);
        segment.last = links.filter(|_| !is_used).map(|(next, before)| (at, next, before));
        if let Some((place, next, before)) = segment.last {
            segment.links.add(place, next, before);
        }
        (at, head) = (next, after);
    };
    Chain { segment, at, ending }
}
