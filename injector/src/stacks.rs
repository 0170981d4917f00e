//! The call stacks that the target stored, each read once.

use std::sync::OnceLock;

use heapattach_abi::{
    python::{END, END_CUT},
    region,
    stacks::{self, MAX_FRAMES},
};

use crate::{
    addr::RemoteAddr,
    event::StackId,
    memory::Memory,
    python::{self, Frames, Interpreter},
    shared::Shared,
};

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
    /// Return addresses, the innermost first; Python frames have addresses of their own
    /// ([`crate::python`]).
    pub frames: Vec<RemoteAddr>,
    /// Why there are no more.
    pub end: StackEnd,
    /// The stack without Python frames, if it has any.
    pub native: Option<StackId>,
}

/// All stacks seen.
#[derive(Debug, Default)]
pub struct Stacks {
    /// By number; asked for at every event.
    known: Vec<Option<Box<Stack>>>,
    /// Of all of them.
    pub python: Frames,
}

impl Stacks {
    /// Reads a stack, unless it is known; to be asked while the target's memory is there.
    pub fn note(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        interpreter: &OnceLock<Interpreter>,
        id: StackId,
    ) {
        if self.is_known(id) {
            return;
        }
        // A stack is whole before a record names it; only somebody who lies names another.
        let Some(words) = read(shared, memory, id) else { return };
        let stack = match (words.end, &words.words[..], interpreter.get()) {
            (END | END_CUT, [native, frames @ ..], Some(interpreter)) => {
                let native = StackId(u32::try_from(*native).unwrap_or(0));
                if !self.is_known(native)
                    && let Some(words) = read(shared, memory, native)
                {
                    self.insert(native, plain(&words));
                }
                let is_cut = words.end == END_CUT;
                self.combined((shared, memory), interpreter, native, frames, is_cut)
            }
            _ => plain(&words),
        };
        self.insert(id, stack);
    }

    /// Whether there is nothing to be learned of it.
    fn is_known(&self, id: StackId) -> bool {
        let number = usize::try_from(id.0).unwrap_or(0);
        number == 0 || number > stacks::STACKS || self.get(id).is_some()
    }

    fn insert(&mut self, id: StackId, stack: Stack) {
        let number = usize::try_from(id.0).unwrap_or(0);
        if self.known.len() <= number {
            self.known.resize(number + 1, None);
        }
        self.known[number] = Some(Box::new(stack));
    }

    fn combined(
        &mut self,
        (shared, memory): (&Shared, &Memory),
        interpreter: &Interpreter,
        native: StackId,
        words: &[u64],
        is_cut: bool,
    ) -> Stack {
        let words = words.iter().filter(|&&word| word != 0);
        let python: Vec<_> =
            words.map(|&word| self.python.note(shared, memory, interpreter, word)).collect();
        let (below, end) = match self.get(native) {
            Some(stack) => (&stack.frames[..], stack.end),
            None => (&[][..], StackEnd::Lost),
        };
        let mut frames = python::merge(below, &python, |at| interpreter.is_loop(at));
        let is_long = frames.len() > MAX_FRAMES;
        frames.truncate(MAX_FRAMES);
        let end = if is_cut || is_long { StackEnd::Depth } else { end };
        Stack { frames, end, native: Some(native) }
    }

    /// A stack that was noted.
    pub fn get(&self, id: StackId) -> Option<&Stack> {
        self.known.get(usize::try_from(id.0).ok()?)?.as_deref()
    }
}

/// An entry of the table: words, and why there are no more.
struct Words {
    words: Vec<u64>,
    end: u8,
}

fn read(shared: &Shared, memory: &Memory, id: StackId) -> Option<Words> {
    let index = usize::try_from(id.0).ok()?.checked_sub(1).filter(|&i| i < stacks::STACKS)?;
    let entry = region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES;
    let described = shared.word(memory, entry + 8).ok().filter(|&word| word != 0)?;
    let lost = Words { words: Vec::new(), end: 0 };
    let Some((first, count, end)) = stacks::place(described) else { return Some(lost) };
    let mut words = vec![0; count];
    if shared.words(memory, region::STACK_WORDS_AT + first * 8, &mut words).is_err() {
        return Some(lost);
    }
    Some(Words { words, end })
}

/// A stack of native frames alone.
fn plain(words: &Words) -> Stack {
    let end = match words.end {
        _ if words.words.is_empty() => StackEnd::Lost,
        1 => StackEnd::Outermost,
        2 => StackEnd::Depth,
        3 => StackEnd::Unbounded,
        4 => StackEnd::NoTable,
        5 => StackEnd::NoRule,
        6 => StackEnd::Implausible,
        _ => return Stack { frames: Vec::new(), end: StackEnd::Lost, native: None },
    };
    let frames = words.words.iter().filter(|&&word| word != 0).map(|&word| RemoteAddr::new(word));
    Stack { frames: frames.collect(), end, native: None }
}
