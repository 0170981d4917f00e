//! The call stacks that the target stored, each read once.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use heapattach_abi::{
    python::{END, END_CUT, place_of},
    region,
    stacks::{self, MAX_FRAMES, STACK_WORDS},
};

use crate::scripts::{self, Frames, Interpreter, Java};
use heapattach_process::{
    addr::RemoteAddr,
    event::StackId,
    generations::Generations,
    memory::Memory,
    shared::Shared,
    stack::{Stack, StackEnd},
};

/// Frames of all stacks together: with Python frames one stack takes more than its own words. Beyond
/// that stacks are lost, for a target can have all of its stacks named by the same words.
const FRAMES_LIMIT: usize = 4 * STACK_WORDS;

/// All stacks seen.
#[derive(Debug, Default)]
pub struct Stacks {
    /// By number; asked for at every event.
    known: Vec<Option<Box<Stack>>>,
    /// Of all of them.
    pub python: Frames,
    /// Whose code addresses were when.
    pub generations: Arc<Generations>,
    /// Where frames are ours, of calls that others are a part of: those were not asked for.
    own_code: Range<RemoteAddr>,
    /// Words that were read: each is a part of one stack only, if the target does not lie.
    words: usize,
    /// Frames of all stacks that are known.
    frames: usize,
}

impl Stacks {
    /// None yet, of code that comes and goes like this; frames in our own code are left out.
    pub(crate) fn of(generations: Arc<Generations>, own_code: Range<RemoteAddr>) -> Self {
        Self { generations, own_code, ..Self::default() }
    }

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
        // A stack is whole before a record names it; only a target that lies names another.
        let Some(words) = self.read(shared, memory, id) else { return };
        let stack = match (words.end, &words.words[..], interpreter.get()) {
            (END | END_CUT, [native, frames @ ..], Some(interpreter)) => {
                let native = StackId(u32::try_from(*native).unwrap_or(0));
                if !self.is_known(native)
                    && let Some(words) = self.read(shared, memory, native)
                {
                    let native_stack = self.plain(shared, memory, &words);
                    self.insert(native, native_stack);
                }
                let is_cut = words.end == END_CUT;
                self.combined((shared, memory), interpreter, native, frames, is_cut)
            }
            _ => self.plain(shared, memory, &words),
        };
        self.insert(id, stack);
    }

    /// Whether there is nothing to be learned of it.
    fn is_known(&self, id: StackId) -> bool {
        let number = usize::try_from(id.0).unwrap_or(0);
        number == 0 || number > stacks::STACKS || self.get(id).is_some()
    }

    fn insert(&mut self, id: StackId, mut stack: Stack) {
        if self.frames + stack.frames.len() > FRAMES_LIMIT {
            stack = Stack { frames: Vec::new(), end: StackEnd::Lost, native: None };
        }
        self.frames += stack.frames.len();
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
        if let Some(java) = interpreter.java() {
            return self.of_java((shared, memory), java, native, words, is_cut);
        }
        let words = words.iter().filter(|&&word| word != 0).map(|&word| place_of(word));
        let (places, python): (Vec<_>, Vec<_>) = words
            .map(|(place, word)| (place, self.python.note(shared, memory, interpreter, word)))
            .unzip();
        let (below, end) = match self.get(native) {
            Some(stack) => (&stack.frames[..], stack.end),
            None => (&[][..], StackEnd::Lost),
        };
        let is_loop = |at: &RemoteAddr| interpreter.is_loop(*at);
        if interpreter.needs_loop() && !below.iter().any(is_loop) {
            // A thread of a library: the one that runs the script was at this place meanwhile.
            return Stack { frames: below.to_vec(), end, native: Some(native) };
        }
        let own = places.iter().zip(&python);
        let own: Option<Vec<_>> = own.map(|(place, (at, _))| Some(((*place)?, *at))).collect();
        let mut frames = match own {
            Some(placed) => scripts::placed(below, &placed),
            None => scripts::merge(below, &python, |at| interpreter.is_loop(at)),
        };
        let is_long = frames.len() > MAX_FRAMES;
        frames.truncate(MAX_FRAMES);
        let end = if is_cut || is_long { StackEnd::Depth } else { end };
        Stack { frames, end, native: Some(native) }
    }

    /// A stack of Java's: what the native frames say beyond the first code of Java's is not known, since they were
    /// walked without knowing how large frames there are.
    fn of_java(
        &mut self,
        (shared, memory): (&Shared, &Memory),
        java: &Java,
        native: StackId,
        words: &[u64],
        is_cut: bool,
    ) -> Stack {
        let (below, end) = match self.get(native) {
            Some(stack) => (&stack.frames[..], stack.end),
            None => (&[][..], StackEnd::Lost),
        };
        if end == StackEnd::Outermost && !below.iter().any(|at| java.is_code(*at)) {
            // All of it is known, and Java did not call it.
            return Stack { frames: below.to_vec(), end, native: Some(native) };
        }
        let mut frames: Vec<_> =
            below.iter().copied().take_while(|at| !java.is_code(*at)).collect();
        for &word in words.iter().filter(|&&word| word != 0) {
            self.python.note_java((shared, memory), java, word, &mut frames);
        }
        frames.retain(|at| !self.own_code.contains(at));
        let is_long = frames.len() > MAX_FRAMES;
        frames.truncate(MAX_FRAMES);
        let end = if is_cut || is_long { StackEnd::Depth } else { StackEnd::Outermost };
        Stack { frames, end, native: Some(native) }
    }

    /// A stack of native frames alone.
    fn plain(&self, shared: &Shared, memory: &Memory, words: &Words) -> Stack {
        let end = match words.end {
            _ if words.words.is_empty() => StackEnd::Lost,
            1 => StackEnd::Outermost,
            2 => StackEnd::Depth,
            3 => StackEnd::Unbounded,
            4 => StackEnd::NoTable,
            5 => StackEnd::NoRule,
            6 => StackEnd::Implausible,
            7 => StackEnd::Late,
            _ => return Stack { frames: Vec::new(), end: StackEnd::Lost, native: None },
        };
        let frames = words.words.iter().filter(|&&word| word != 0);
        let frames = frames.map(|&word| self.generations.address(shared, memory, word));
        let frames = frames.filter(|at| !self.own_code.contains(at));
        Stack { frames: frames.collect(), end, native: None }
    }

    /// An entry of the table: nothing of it once more was read than there is.
    fn read(&mut self, shared: &Shared, memory: &Memory, id: StackId) -> Option<Words> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1).filter(|&i| i < stacks::STACKS)?;
        let entry = region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES;
        let described = shared.word(memory, entry + 8).ok().filter(|&word| word != 0)?;
        let lost = Words { words: Vec::new(), end: 0 };
        let Some((first, count, end)) = stacks::place(described) else { return Some(lost) };
        if self.words + count > STACK_WORDS {
            return Some(lost);
        }
        self.words += count;
        let mut words = vec![0; count];
        if shared.words(memory, region::STACK_WORDS_AT + first * 8, &mut words).is_err() {
            return Some(lost);
        }
        Some(Words { words, end })
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

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::OwnedFd, sync::OnceLock};

    use heapattach_abi::python::{
        CODES, COPIED_WORDS, FILE_AT, LENGTH_AT, LINES_AT, LINES_BYTES, NAME_AT, stored,
    };
    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;
    use crate::scripts::tests::some;
    use heapattach_process::{memory_file::MemoryFile, python_frame};

    /// What a target that lies has in its region: every stack is named by the same words.
    fn region(end: u8, word: impl Fn(usize) -> u64) -> (Shared, Memory) {
        let file: OwnedFd = memfd_create("stacks", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        let file = MemoryFile::judged(file).unwrap();
        let shared = Shared::take(file, region::tables_at(7)).unwrap();
        let memory = Memory::of(File::open("/dev/null").unwrap());
        let set = |at, word| shared.store(&memory, at, word).unwrap();
        for index in 0..stacks::STACKS {
            // Each begins elsewhere, so that Python frames are other ones.
            let first = u32::try_from(index * 13 % (STACK_WORDS - MAX_FRAMES)).unwrap();
            let place = stacks::describe(first, u8::try_from(MAX_FRAMES).unwrap(), end);
            set(region::STACK_INDEX_AT + index * stacks::ENTRY_BYTES + 8, place);
        }
        (0..STACK_WORDS).for_each(|index| set(region::STACK_WORDS_AT + index * 8, word(index)));
        (shared, memory)
    }

    fn ids() -> impl Iterator<Item = StackId> {
        (1..=u32::try_from(stacks::STACKS).unwrap()).map(StackId)
    }

    fn note_all(shared: &Shared, memory: &Memory, interpreter: &OnceLock<Interpreter>) -> Stacks {
        let mut stacks = Stacks::default();
        ids().for_each(|id| stacks.note(shared, memory, interpreter, id));
        stacks
    }

    #[test]
    fn stacks_that_share_their_words_take_no_more_memory_than_honest_ones() {
        let (shared, memory) = region(1, |index| 0x1000 + index as u64);
        let stacks = note_all(&shared, &memory, &OnceLock::new());
        let all = ids().filter_map(|id| stacks.get(id));
        let sum: usize = all.map(|stack| stack.frames.len()).sum();
        assert!(sum > STACK_WORDS / 2 && sum <= STACK_WORDS, "{sum} frames");
        let last = stacks.get(ids().last().unwrap()).unwrap();
        assert_eq!(last.end, StackEnd::Lost);
    }

    #[test]
    fn python_frames_that_nobody_copied_take_no_more_memory_than_honest_ones() {
        const COPY: usize = LINES_AT;
        const COPIES: usize = (STACK_WORDS - 2000) / (COPY / 8);
        // Every word names a copy, of which there are five times as many as there can be.
        let words = |index: usize| match index * 8 % COPY {
            8 => 0x7000,
            at if at == NAME_AT + 16 || at == FILE_AT + 16 => 8,
            at if at == NAME_AT + 32 || at == FILE_AT + 32 => 0b1_1001 << 2,
            LENGTH_AT => LINES_BYTES,
            _ => stored(index as u64, ((index % COPIES + 1) * (COPY / 8)) as u64),
        };
        let (shared, memory) = region(END, words);
        let stacks = note_all(&shared, &memory, &OnceLock::from(some()));
        let (frames, (codes, bytes)) = (stacks.python.all().len(), stacks.python.codes());
        println!("{frames} Python frames of {codes} functions, {bytes} bytes of tables");
        assert!(codes > 1000 && codes <= CODES + 1, "{codes} functions");
        assert!(bytes > 0 && bytes < COPIED_WORDS * 8 + LINES_BYTES, "{bytes} bytes");
        assert!(frames < python_frame::FRAMES_LIMIT, "{frames} frames");
        let all = ids().filter_map(|id| stacks.get(id));
        let sum: usize = all.map(|stack| stack.frames.len()).sum();
        assert!(sum <= FRAMES_LIMIT, "{sum} frames");
    }
}
