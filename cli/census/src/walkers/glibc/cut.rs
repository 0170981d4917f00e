//! A thread that was stopped while it cuts a free chunk in two: the rest is in the list of unsorted chunks first,
//! and gets its head last.
//!
//! ```text
//! 1  the rest is listed       the chunk's head still tells all of it
//! 2  the chunk has its size   the head of the rest is whatever the block there left
//! 3  the rest has its head    what its end says is still the old size
//! ```
//!
//! In 1 and 2 the end of the rest still says how far it is from the start of the chunk: so it is found.

use std::ops::Range;

use crate::{Moment, Window};

use super::{
    BEFORE_IN_USE, FLAGS, HEAD, SMALLEST,
    chain::{self, Chain, Ending},
};

/// So much is read at once.
const WINDOW: usize = 1 << 16;
/// No further is the end of a rest looked for.
const LONGEST: u64 = 1 << 30;
/// Chunks that are followed to tell whether they are ones.
const MOST_FOLLOWED: usize = 4096;

/// The chain, where the list of unsorted chunks has `rest` in it and a thread may be in the middle of a change.
/// None where nothing is being cut: then it is as any other.
pub fn follow(
    moment: &Moment<'_>,
    range: &Range<u64>,
    is_top: bool,
    arena: u32,
    rest: u64,
) -> Option<Chain> {
    if !rest.is_multiple_of(HEAD) || rest <= range.start || rest >= range.end {
        return None;
    }
    let mut chain = chain::follow(moment, &(range.start..rest), true, arena);
    let mut window = Window::new(moment, range.start..range.end.saturating_add(HEAD), WINDOW);
    let end = match chain.ending {
        // The chunk still has all of its size.
        Ending::Broken(size) => {
            let end = chain.at.checked_add(size).filter(|_| size.is_multiple_of(HEAD))?;
            if end <= rest || end >= range.end || is_before_used(&mut window, end)? {
                return None;
            }
            chain.segment.push(chain.at, rest, true);
            end
        }
        Ending::Arrived => {
            let before = chain.segment.last_start()?;
            if has_head(&mut window, before, rest, range.end) {
                return None;
            }
            let end = end_of(moment, &mut window, before, rest, range.end)?;
            // The head that told whether it is in use is not one.
            chain.segment.pop();
            chain.segment.push(before, rest, true);
            end
        }
        Ending::Fence | Ending::Unreadable => return None,
    };
    chain.segment.push(rest, end, false);
    if let Some((next, before)) = window.pair(rest + HEAD) {
        chain.segment.last = Some((rest, next, before));
        chain.segment.links.add(rest, next, before);
    }
    let behind = chain::follow(moment, &(end..range.end), is_top, arena);
    chain.segment.append(behind.segment);
    Some(Chain { segment: chain.segment, at: behind.at, ending: behind.ending })
}

/// Whether the rest has its head: where that leads, its size is said once more, or the size before the cut.
fn has_head(window: &mut Window<'_, '_>, before: u64, rest: u64, limit: u64) -> bool {
    let Some((_, head)) = window.pair(rest) else { return false };
    let size = head & !FLAGS;
    let Some(end) = rest.checked_add(size).filter(|end| size >= SMALLEST && *end < limit) else {
        return false;
    };
    let is_sound = head & BEFORE_IN_USE != 0 && size.is_multiple_of(HEAD);
    is_sound
        && window.pair(end).is_some_and(|(told, after)| {
            after & BEFORE_IN_USE == 0 && (told == size || told == end - before)
        })
}

/// Where the rest of a chunk that began at `before` ends.
fn end_of(
    moment: &Moment<'_>,
    window: &mut Window<'_, '_>,
    before: u64,
    rest: u64,
    limit: u64,
) -> Option<u64> {
    let last = limit.min(rest.saturating_add(LONGEST));
    let mut at = rest + SMALLEST;
    while at < last {
        let (told, _) = window.pair(at)?;
        if told == at - before && begins_here(moment, window, at, limit) {
            return Some(at);
        }
        at += HEAD;
    }
    None
}

/// Whether what is at `at` is a chunk in use behind a free one, and no left-over of one within it: those lead to
/// where the chunk before is free, too, and no list has it.
fn begins_here(moment: &Moment<'_>, window: &mut Window<'_, '_>, start: u64, limit: u64) -> bool {
    let mut at = start;
    for _ in 0..MOST_FOLLOWED {
        let Some((_, head)) = window.pair(at) else { return false };
        let size = head & !FLAGS;
        let is_first = at == start;
        if is_first && head & BEFORE_IN_USE != 0 {
            return false;
        }
        if size == HEAD && !is_first {
            return true;
        }
        let Some(next) = at.checked_add(size).filter(|next| *next <= limit) else { return false };
        if size < SMALLEST || !size.is_multiple_of(HEAD) {
            return false;
        }
        let Some(is_used) = is_before_used(window, next) else { return false };
        if !is_used {
            return !is_first && is_listed(moment, at);
        }
        if next == limit {
            return true;
        }
        at = next;
    }
    true
}

/// Whether the chunks that a free one names in its list name it, too.
fn is_listed(moment: &Moment<'_>, at: u64) -> bool {
    let words = moment.words(at + HEAD, 2);
    let Some(&[next, before]) = words.as_deref().and_then(|words| words.first_chunk()) else {
        return false;
    };
    let leads_here = |place: u64, offset: u64| {
        place.checked_add(offset).and_then(|place| moment.word(place)) == Some(at)
    };
    leads_here(next, HEAD + 8) && leads_here(before, HEAD)
}

fn is_before_used(window: &mut Window<'_, '_>, at: u64) -> Option<bool> {
    Some(window.pair(at)?.1 & BEFORE_IN_USE != 0)
}
