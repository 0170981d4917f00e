//! The call stacks that the target stored, each read once.

use heapattach_abi::{
    region,
    stacks::{self, MAX_FRAMES},
};

use crate::{addr::RemoteAddr, event::StackId, memory::Memory, shared::Shared};

/// Why a stack ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// The outermost frame was reached.
    Outermost,
    /// It is deeper than is recorded.
    Depth,
    /// It goes on in memory that is not known to be a stack.
    Unbounded,
    /// Code that no table describes.
    NoTable,
    /// A table that cannot be followed.
    NoRule,
    /// The next frame is not where a frame can be.
    Implausible,
    /// The target had no room for it, or says nonsense.
    Lost,
}

/// One call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Return addresses, the innermost first.
    pub frames: Vec<RemoteAddr>,
    /// Why there are no more.
    pub end: StackEnd,
}

/// All stacks seen.
#[derive(Debug, Default)]
pub struct Stacks {
    /// By number; asked for at every event.
    known: Vec<Option<Box<Stack>>>,
}

impl Stacks {
    /// Reads a stack, unless it is known; to be asked while the target's memory is there.
    pub fn note(&mut self, shared: &Shared, memory: &Memory, id: StackId) {
        let Ok(number) = usize::try_from(id.0) else { return };
        if number == 0 || number > stacks::STACKS || self.get(id).is_some() {
            return;
        }
        // A stack is whole before a record names it; only somebody who lies names another.
        let Some(stack) = read(shared, memory, id) else { return };
        if self.known.len() <= number {
            self.known.resize(number + 1, None);
        }
        self.known[number] = Some(Box::new(stack));
    }

    /// A stack that was noted.
    pub fn get(&self, id: StackId) -> Option<&Stack> {
        self.known.get(usize::try_from(id.0).ok()?)?.as_deref()
    }
}

fn read(shared: &Shared, memory: &Memory, id: StackId) -> Option<Stack> {
    let index = usize::try_from(id.0).ok()?.checked_sub(1).filter(|&i| i < stacks::STACKS)?;
    let entry = region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES;
    let described = shared.word(memory, entry + 8).ok().filter(|&word| word != 0)?;
    let lost = Stack { frames: Vec::new(), end: StackEnd::Lost };
    let Some((first, count, end)) = stacks::place(described) else { return Some(lost) };
    let mut words = [0; MAX_FRAMES];
    let words = &mut words[..count];
    if shared.words(memory, region::STACK_WORDS_AT + first * 8, words).is_err() {
        return Some(lost);
    }
    let end = match end {
        _ if count == 0 => StackEnd::Lost,
        1 => StackEnd::Outermost,
        2 => StackEnd::Depth,
        3 => StackEnd::Unbounded,
        4 => StackEnd::NoTable,
        5 => StackEnd::NoRule,
        6 => StackEnd::Implausible,
        _ => StackEnd::Lost,
    };
    let frames = words.iter().filter(|&&word| word != 0).map(|&word| RemoteAddr::new(word));
    Some(Stack { frames: frames.collect(), end })
}
