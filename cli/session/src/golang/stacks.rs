//! The stacks of a profile, numbered as they come.

use std::collections::HashMap;

use heapattach_process::{
    addr::RemoteAddr,
    event::StackId,
    stack::{Stack, StackEnd},
};
use heapattach_recording::StackSource;

/// By number and by frames.
#[derive(Debug, Default)]
pub struct Stacks {
    numbers: HashMap<Vec<u64>, u32>,
    all: Vec<Stack>,
}

impl Stacks {
    /// The number of a stack.
    pub fn number(&mut self, frames: &[u64]) -> StackId {
        if let Some(&number) = self.numbers.get(frames) {
            return StackId(number);
        }
        // 0 is no stack.
        let number = u32::try_from(self.all.len() + 1).unwrap_or(u32::MAX);
        let stack = Stack {
            frames: frames.iter().map(|at| RemoteAddr::new(*at)).collect(),
            end: StackEnd::Outermost,
            native: None,
        };
        self.all.push(stack);
        self.numbers.insert(frames.to_vec(), number);
        StackId(number)
    }
}

impl StackSource for Stacks {
    fn stack(&self, id: StackId) -> Option<&Stack> {
        self.all.get(usize::try_from(id.0).ok()?.checked_sub(1)?)
    }
}
