//! What a stopped thread has that is not in memory, and which memory is its own.

use crate::arch::{self, Registers};
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::maps::Mapping, root::RootKind};

use super::area::Pointer;

/// How far below the end of a stack the C library's record of its thread can begin.
const RECORD_REACH: u64 = 64 << 10;
/// Where it is looked for on a stack that no thread names.
const RECORD_WINDOW: u64 = 16 << 10;

/// A living thread, by the two registers that say where its memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its stack pointer.
    pub stack: u64,
    /// Its thread pointer, which thread-local variables lie below.
    pub pointer: u64,
    /// From here on its stack means something.
    pub alive_from: u64,
}

impl Thread {
    /// Of a stopped one.
    pub fn of(registers: &Registers) -> Self {
        let stack = arch::stack_pointer(registers).get();
        Self {
            stack,
            pointer: arch::thread_pointer(registers).get(),
            alive_from: stack.saturating_sub(arch::RED_ZONE),
        }
    }

    /// Whether this mapping is the stack that its C library made for it: its record is at the end.
    pub fn is_on_own_stack(&self, mapping: &Mapping<'_>) -> bool {
        let end = mapping.range.end.get();
        mapping.range.contains(&RemoteAddr::new(self.pointer))
            && end - self.pointer <= RECORD_REACH
            && (mapping.range.contains(&RemoteAddr::new(self.stack)) || is_large(mapping))
    }
}

/// A first thread's record lies in a few pages that the loader mapped; a stack is larger.
fn is_large(mapping: &Mapping<'_>) -> bool {
    mapping.range.end.offset_from(mapping.range.start).unwrap_or(0) > RECORD_REACH
}

/// The words of a thread's registers that may be pointers.
pub fn pointers(registers: &Registers, vectors: &[u8]) -> Vec<Pointer> {
    let (words, _) = vectors.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    pointers_in(registers, arch::words(registers).into_iter().chain(words))
}

/// The same, if only these words mean something.
pub fn pointers_in(registers: &Registers, words: impl Iterator<Item = u64>) -> Vec<Pointer> {
    let held = words.filter(|&word| word != 0);
    let mut pointers: Vec<Pointer> =
        held.map(|word| Pointer { word, holder: RootKind::Registers, is_whole: false }).collect();
    // A stack that was allocated belongs to the thread that runs on it.
    let word = arch::stack_pointer(registers).get();
    pointers.push(Pointer { word, holder: RootKind::Stacks, is_whole: true });
    pointers
}

/// The vector of a thread's dynamic thread-local memory; its pointer leads behind the first word.
pub fn dynamic_tls(memory: &Memory, record: u64) -> Option<Pointer> {
    let at = RemoteAddr::new(record).checked_add(8)?;
    let word = memory.word(at).ok().filter(|&word| word != 0)?;
    Some(Pointer { word, holder: RootKind::Tls, is_whole: true })
}

/// The C library's record of a thread at the end of a stack, if one is there: it has its own
/// address in it, twice.
pub fn record_at_end(memory: &Memory, mapping: &Mapping<'_>) -> Option<u64> {
    let end = mapping.range.end.get();
    let start = mapping.range.start.get().max(end.saturating_sub(RECORD_WINDOW));
    let mut bytes = vec![0; usize::try_from(end - start).ok()?];
    memory.read(RemoteAddr::new(start), &mut bytes).ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let word = |index: usize| words.get(index).map(|word| u64::from_le_bytes(*word));
    let is_record = |index: &usize| {
        let own = start + (*index as u64) * 8;
        word(*index) == Some(own) && word(index + 2) == Some(own)
    };
    let index = (0..words.len()).rev().find(is_record)?;
    Some(start + (index as u64) * 8)
}
