//! Blocks that are being moved: a thread that is stopped inside a `realloc` has announced that the old
//! block is freed, and has not recorded the new one yet. The content is at one of the two places, and
//! holds what it leads to.

use std::{collections::HashMap, ops::Range};

use heapattach_injector::moment::InCall;

use heapattach_profile::Profile;
use heapattach_reach::{Block, Piece, RootKind};

/// What is not known to be smaller is no larger than this.
const MOST: u64 = 64 << 20;
/// A chunk of an allocator begins so much before its block.
const HEAD: u64 = 16;

/// The calls that exchange a block.
#[derive(Debug, Default)]
pub(super) struct Flight {
    calls: Vec<InCall>,
    /// By address: the size of a block whose going was announced.
    sizes: HashMap<u64, u64>,
}

impl Flight {
    /// Of these calls.
    pub(super) fn of(calls: Vec<InCall>, profile: &Profile) -> Self {
        let calls: Vec<InCall> =
            calls.into_iter().filter(|call| !call.exchanged.is_empty()).collect();
        let mut sizes = HashMap::new();
        if !calls.is_empty() {
            // The last that was announced of an address is the one that counts.
            let asked = |at: &u64| calls.iter().any(|call| call.exchanged.contains(at));
            sizes.extend(profile.announced_blocks().filter(|(at, _)| asked(at)));
        }
        Self { calls, sizes }
    }

    /// Has the places where contents may lie hold what they lead to; `live` is sorted by address.
    pub(super) fn hold(&self, live: &[Block], pieces: &mut Vec<Piece>) {
        let mut held: Vec<Range<u64>> = Vec::new();
        for call in &self.calls {
            let is_live = |at: u64| is_in_block(live, at);
            let gone = call.exchanged.iter().filter(|&&at| !is_live(at));
            let Some(size) = gone.clone().map(|&at| self.size(at, live)).max() else { continue };
            held.extend(gone.map(|&at| at..at.saturating_add(size)));
            let new = call.words.iter().filter(|&&word| word != 0 && !is_live(word));
            held.extend(new.map(|&word| word..word.saturating_add(size + HEAD)));
        }
        paint(pieces, &merged(held));
    }

    /// The size of a block that goes: what was recorded of it, or all up to the next one.
    fn size(&self, at: u64, live: &[Block]) -> u64 {
        let next = live.get(live.partition_point(|block| block.at <= at));
        let room = next.map_or(MOST, |next| (next.at - at).min(MOST));
        self.sizes.get(&at).copied().unwrap_or(room).min(MOST)
    }
}

fn is_in_block(live: &[Block], at: u64) -> bool {
    let before = live.partition_point(|block| block.at <= at).checked_sub(1);
    before.and_then(|index| live.get(index)).is_some_and(|b| at - b.at < b.size.max(1))
}

/// The same ranges, sorted, no two overlapping.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Has parts of pieces that hold nothing hold what they lead to.
fn paint(pieces: &mut Vec<Piece>, held: &[Range<u64>]) {
    if held.is_empty() {
        return;
    }
    let root = Some(RootKind::Registers);
    let old = std::mem::take(pieces);
    for Piece { range, root: own } in old {
        let mut at = range.start;
        let first = held.partition_point(|held| held.end <= range.start);
        let inside = held[first..].iter().take_while(|held| held.start < range.end);
        for part in inside.filter(|_| own.is_none()) {
            let (start, end) = (part.start.max(at), part.end.min(range.end));
            pieces.push(Piece { range: at..start, root: None });
            pieces.push(Piece { range: start..end, root });
            at = end;
        }
        pieces.push(Piece { range: at..range.end, root: own });
    }
    pieces.retain(|piece| !piece.range.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: u64, size: u64) -> Block {
        Block { at, size, stack: 0 }
    }

    fn held(flight: &Flight, live: &[Block]) -> Vec<Range<u64>> {
        let mut pieces = vec![
            Piece { range: 0x1000..0x9000, root: None },
            Piece { range: 0xa000..0xb000, root: Some(RootKind::Globals) },
        ];
        flight.hold(live, &mut pieces);
        assert!(pieces.is_sorted_by(|a, b| a.range.end <= b.range.start), "{pieces:?}");
        let bytes: u64 = pieces.iter().map(|piece| piece.range.end - piece.range.start).sum();
        assert_eq!(bytes, 0x9000, "no piece is missing: {pieces:?}");
        let held = pieces.into_iter().filter(|piece| piece.root == Some(RootKind::Registers));
        held.map(|piece| piece.range).collect()
    }

    fn flight(exchanged: &[u64], words: &[u64], sizes: &[(u64, u64)]) -> Flight {
        let call = InCall { tid: 1, words: words.to_vec(), exchanged: exchanged.to_vec() };
        Flight { calls: vec![call], sizes: sizes.iter().copied().collect() }
    }

    #[test]
    fn both_places_of_a_block_that_is_exchanged_hold_what_they_lead_to() {
        let live = [block(0x1000, 0x100), block(0x5000, 0x20)];
        // The old place, the new one by a word of the allocator's, and a block that lives.
        let flight = flight(&[0x2000], &[0x3000, 0x5008, 0x7f00_0000_0000, 0], &[(0x2000, 0x40)]);
        assert_eq!(held(&flight, &live), [0x2000..0x2040, 0x3000..0x3050]);
    }

    #[test]
    fn a_block_that_was_not_announced_yet_is_what_it_is() {
        let live = [block(0x2000, 0x40)];
        assert_eq!(held(&flight(&[0x2000], &[0x3000], &[]), &live), []);
        assert_eq!(held(&Flight::default(), &live), []);
    }

    #[test]
    fn one_of_unknown_size_reaches_to_the_next_block() {
        let live = [block(0x2100, 0x40)];
        assert_eq!(
            held(&flight(&[0x2000], &[], &[]), &live),
            std::slice::from_ref(&(0x2000..0x2100))
        );
        assert_eq!(
            held(&flight(&[0x8000], &[], &[]), &live),
            std::slice::from_ref(&(0x8000..0x9000))
        );
    }
}
