//! The list of all buckets: those that are new come first.

use std::collections::HashSet;

use super::{
    Live,
    bucket::{HEAD, Place},
};

/// More are not read.
const MOST: usize = 1 << 20;
/// Nor are more addresses of all their stacks together.
const MOST_FRAMES: usize = 1 << 24;
/// A node that is just being made may look empty; it is read again so often.
const TRIES: usize = 3;

/// What is known of it.
#[derive(Debug, Default)]
pub(super) struct List {
    /// By address.
    known: HashSet<u64>,
    /// In the order of addresses, so that neighbours are read at once.
    pub places: Vec<Place>,
    /// Buckets that made no sense.
    pub odd: u64,
    frames: usize,
}

impl List {
    /// Follows the list from its head to what is known of it; `false` if it cannot be read.
    pub fn follow(&mut self, live: &impl Live, head: u64) -> bool {
        let Some(mut at) = live.word(head) else { return false };
        let before = self.places.len();
        let is_full = |list: &Self| list.known.len() >= MOST || list.frames >= MOST_FRAMES;
        while at != 0 && !is_full(self) && self.known.insert(at) {
            match node(live, at) {
                Some((next, place)) => {
                    self.odd += u64::from(place.is_none());
                    self.frames += place.as_ref().map_or(0, |place| place.stack.len());
                    self.places.extend(place);
                    at = next;
                }
                None => {
                    // What is behind it would never be reached from what is known.
                    *self = Self::default();
                    return false;
                }
            }
        }
        if self.places.len() > before {
            self.places.sort_by_key(|place| place.at);
        }
        true
    }
}

/// The next one, and what it is; `None` if it cannot be read.
fn node(live: &impl Live, at: u64) -> Option<(u64, Option<Place>)> {
    let mut head = [0; HEAD];
    for _ in 0..TRIES {
        if at & 7 != 0 || !live.read(at, &mut head) {
            return None;
        }
        if head[16] != 0 {
            break;
        }
    }
    let next = u64::from_le_bytes(*head[8..].first_chunk()?);
    let Some((mut place, length)) = Place::of(at, &head) else { return Some((next, None)) };
    let mut stack = vec![0; length * 8];
    if !live.read(at + HEAD as u64, &mut stack) {
        return None;
    }
    let (words, _) = stack.as_chunks::<8>();
    place.stack = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Some((next, Some(place)))
}
