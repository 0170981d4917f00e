//! The stacks of a session: by numbers of its own, which a recording and a ledger replace by theirs.

use heapattach_process::{event::StackId, stack::Stack};

/// Where stacks are known by number.
pub trait StackSource {
    /// A stack that was seen.
    fn stack(&self, id: StackId) -> Option<&Stack>;
}

/// The numbers that stacks were given, by those that the session has for them.
#[derive(Debug, Default)]
pub struct Numbers {
    /// One more than the number; 0 is none.
    given: Vec<u64>,
}

impl Numbers {
    /// The number of a stack, if it was given one.
    pub fn get(&self, id: StackId) -> Option<u64> {
        self.given.get(index(id))?.checked_sub(1)
    }

    /// Gives a stack its number.
    pub fn set(&mut self, id: StackId, number: u64) {
        let index = index(id);
        if self.given.len() <= index {
            self.given.resize(index + 1, 0);
        }
        self.given[index] = number + 1;
    }
}

fn index(id: StackId) -> usize {
    usize::try_from(id.0).unwrap_or(0)
}
