//! Records that were begun and not finished when their place in the ring was read: they are told when
//! they come, or given up.

use heapattach_abi::{
    protocol, region,
    ring::{RINGS, SLOT_BYTES},
};

use super::{Call, Reader, head_at, meaning};
use crate::records::{
    patience::Since,
    sequence::{Sequence, Turn},
};
use heapattach_process::{event::Event, shared::Reach};

/// A slot that was passed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    pub(super) ring: usize,
    pub(super) position: u64,
    /// When it was looked for first since the last moment: before that no thread ran.
    pub(super) since: Option<Since>,
}

impl Reader {
    /// Tells what was passed over and is here now. If threads run, what is not there is waited for.
    pub(super) fn fill_holes(
        &mut self,
        reach: &Reach<'_>,
        threads_run: bool,
        tell: &mut impl FnMut(Event, Call),
    ) {
        if self.holes.is_empty() {
            return;
        }
        let (mut open, mut touched) = (Vec::new(), [false; RINGS]);
        let patience = threads_run.then_some(self.patience);
        let is_given_up = |hole: &Hole| {
            hole.since.zip(patience).is_some_and(|(since, patience)| since.is_over(patience))
        };
        for hole in std::mem::take(&mut self.holes) {
            if let Some(slot) = protocol::read(reach, self.slot_at(&hole), hole.position) {
                self.take_in(reach, hole.ring, slot, tell);
            } else if is_given_up(&hole) {
                self.torn = self.torn.saturating_add(1);
            } else {
                open.push(Hole {
                    since: hole.since.or_else(|| threads_run.then(Since::now)),
                    ..hole
                });
                continue;
            }
            touched[hole.ring] = true;
        }
        self.holes = open;
        if self.holes.is_empty() {
            self.sequence.forget_late();
        }
        for ring in (0..RINGS).filter(|&ring| touched[ring]) {
            protocol::advance(reach, head_at(ring), self.read_up_to(ring));
        }
    }

    /// Takes in a slot that was passed over.
    fn take_in(
        &mut self,
        reach: &Reach<'_>,
        ring: usize,
        slot: [u64; 4],
        tell: &mut impl FnMut(Event, Call),
    ) {
        let stamp = slot[3];
        let slot = meaning::kept(meaning::writer(ring), slot);
        match self.sequence.turn(stamp) {
            Turn::Late => {
                self.sequence.take_late(stamp);
                self.tell_one(slot, tell);
            }
            Turn::Later(later) if !Sequence::has_room(later) => {
                if !self.sequence.keep_far_late(ring, slot) {
                    self.refuse();
                }
            }
            Turn::Now | Turn::Later(_) => {
                self.sequence.keep(slot);
                self.tell_ready(reach, tell);
            }
            Turn::Never => self.refuse(),
        }
    }

    fn slot_at(&self, hole: &Hole) -> usize {
        let slots = region::SLOTS_AT + hole.ring * (SLOT_BYTES << self.ring_bits);
        let capacity = 1_u64 << self.ring_bits;
        slots + usize::try_from(hole.position & (capacity - 1)).unwrap_or(0) * SLOT_BYTES
    }

    /// Up to where the slots of a ring can be written over.
    pub(super) fn read_up_to(&self, ring: usize) -> u64 {
        let holes = self.holes.iter().filter(|hole| hole.ring == ring);
        // Positions wrap: what counts is how far it is behind the tail.
        let behind = |position: u64| self.tails[ring].wrapping_sub(position);
        let most = holes.map(|hole| behind(hole.position)).max().unwrap_or(0);
        self.tails[ring].wrapping_sub(most)
    }
}
