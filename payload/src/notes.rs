//! What a walk depends on, as it is noted in a memo while the walk goes on.

use heapattach_abi::memo;

use crate::{
    shared_word::Place,
    unwind::{Walk, Witness},
};

/// The words that a walk loads, as they are noted in a memo.
pub(crate) struct Notes {
    place: Place,
    /// How many.
    pub words: usize,
    /// How the step used the frame pointer.
    pub used: u64,
}

impl Notes {
    /// None yet, to be written at a place of a memo.
    pub(crate) fn new(place: Place) -> Self {
        Self { place, words: 0, used: 0 }
    }

    /// What is there, at the addresses noted from the given one on.
    pub(crate) fn look_again(&self, walk: &Walk, first: usize) {
        for number in first..self.words {
            let word = self.place.at(number * memo::WORD_BYTES);
            word.at(8).set(walk.load(word.get()).unwrap_or(0));
        }
    }
}

impl Witness for Notes {
    fn loaded(&mut self, at: u64) {
        // Room for all words of one step was made sure of before it.
        if self.words < memo::WORDS {
            self.place.at(self.words * memo::WORD_BYTES).set(at);
            self.words += 1;
        }
    }

    fn used(&mut self, how: u64) {
        self.used |= how;
    }
}
