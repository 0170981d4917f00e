//! Sums up blocks while they stream by.

use crate::{Block, Moment, Sink, State, Walk};

use super::{Amount, Fill, Kinds, Resident, Sizes};

/// The sums of all walkers of a moment.
#[derive(Debug)]
pub struct Tally {
    resident: Resident,
    /// By the arena of the walk that is under way.
    arenas: Vec<Kinds>,
    /// Blocks by size, of all walks.
    pub sizes: Sizes,
    /// Pages, of all walks.
    pub fill: Fill,
    /// Bytes of allocators in memory, of all walks.
    bytes: u64,
}

impl Tally {
    /// Of a moment.
    pub fn new(moment: &Moment<'_>) -> Self {
        Self {
            resident: Resident::of(moment),
            arenas: Vec::new(),
            sizes: Sizes::default(),
            fill: Fill::default(),
            bytes: 0,
        }
    }

    /// Ends a walk: what its arenas have, in their order.
    pub fn finish_walk(&mut self, walk: &Walk) -> Vec<Kinds> {
        let mut all = std::mem::take(&mut self.arenas);
        all.resize(walk.arenas.len(), Kinds::default());
        for (kinds, arena) in all.iter_mut().zip(&walk.arenas) {
            let mut whole = Amount::default();
            let all = arena.memory.iter().chain(&arena.books);
            all.for_each(|range| whole.add(self.resident.overlap(range)));
            arena.top.iter().for_each(|range| kinds.top.add(self.resident.overlap(range)));
            kinds.books = Amount::default();
            kinds.books = whole.without(kinds.all());
            self.bytes = self.bytes.saturating_add(whole.resident);
        }
        all
    }

    /// Ends the whole.
    pub fn finish(&mut self) {
        self.fill.finish(self.bytes, &mut self.resident);
    }

    /// How much of a range is in memory.
    pub fn resident(&mut self) -> &mut Resident {
        &mut self.resident
    }
}

impl Sink for Tally {
    #[inline]
    fn block(&mut self, block: Block) {
        let Block { at, size, state, arena, .. } = block;
        let end = at.saturating_add(size);
        let index = usize::try_from(arena).unwrap_or(0);
        if index >= self.arenas.len() {
            self.arenas.resize(index + 1, Kinds::default());
        }
        let amount = self.resident.overlap(&(at..end));
        let kinds = &mut self.arenas[index];
        match state {
            State::Used => {
                kinds.live.add(amount);
                self.fill.add(at, end, &mut self.resident);
            }
            State::Free => kinds.free.add(amount),
            State::Cached => kinds.cached.add(amount),
        }
        self.sizes.add(size, state);
    }
}
