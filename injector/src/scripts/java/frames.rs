//! Frames of Java, each place in a method known by a number: one word of a stack leads to as many as the compiler put
//! into one another.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::{
    java::{COPY_WORDS, NATIVE},
    python::{NOWHERE, unpack},
    region,
    stacks::STACK_WORDS,
};

use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    python_frame::{FRAMES_LIMIT, Language, PythonFrame},
    shared::Shared,
};

use super::{
    Java,
    code::{Method, Methods},
};

/// Places that words were found to lead to, and the methods that were read for it.
#[derive(Debug, Default)]
pub(in crate::scripts) struct JavaWords {
    places: HashMap<u64, Vec<usize>>,
    /// Of all of them.
    count: usize,
    methods: Methods,
}

/// What a word of a stack is.
pub(in crate::scripts) enum Told {
    /// A native frame between those of Java.
    Native(RemoteAddr),
    /// These frames, from the innermost one on; `None` where code is gone, or was never there.
    Frames(Option<Vec<PythonFrame>>),
}

impl JavaWords {
    /// The numbers of what a word leads to, if it was looked at.
    pub fn known(&self, word: u64) -> Option<&[usize]> {
        self.places.get(&word).map(Vec::as_slice)
    }

    /// Whether there is room for more.
    pub fn has_room(&self) -> bool {
        self.count < FRAMES_LIMIT && self.places.len() < FRAMES_LIMIT
    }

    /// Keeps them.
    pub fn keep(&mut self, word: u64, numbers: Vec<usize>) {
        self.count += numbers.len();
        self.places.insert(word, numbers);
    }

    /// Looks at a word.
    pub fn told(&mut self, shared: &Shared, memory: &Memory, java: &Java, word: u64) -> Told {
        if word & NATIVE != 0 {
            return Told::Native(RemoteAddr::new(word & !NATIVE));
        }
        Told::Frames(self.frames(shared, memory, java, word))
    }

    fn frames(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        java: &Java,
        word: u64,
    ) -> Option<Vec<PythonFrame>> {
        let (copy, instruction, _) = unpack(word);
        let (at, identity) = copied(shared, memory, copy)?;
        if !java.is_code(RemoteAddr::new(at)) {
            let method = self.methods.method(memory, java, at, identity)?;
            let told = instruction.and_then(|lowest| method.instruction(lowest, NOWHERE));
            return Some(vec![frame(&method, told)]);
        }
        let scopes = self.methods.scopes(memory, java, (at, identity), instruction?)?;
        Some(scopes.iter().map(|(method, told)| frame(method, *told)).collect())
    }
}

fn frame(method: &Method, instruction: Option<u32>) -> PythonFrame {
    PythonFrame {
        language: Language::Java,
        function: Arc::clone(&method.function),
        file: Arc::clone(&method.file),
        line: instruction.and_then(|instruction| method.line(instruction)),
    }
}

/// Of the copy that begins with a word: the address of code, and what it was told apart by.
fn copied(shared: &Shared, memory: &Memory, first: u64) -> Option<(u64, u64)> {
    let first = usize::try_from(first).ok().filter(|&first| first != 0)?;
    if first.checked_add(COPY_WORDS)? > STACK_WORDS {
        return None;
    }
    let mut words = [0; COPY_WORDS];
    shared.words(memory, region::STACK_WORDS_AT + first * 8, &mut words).ok()?;
    Some((words[0], words[1]))
}
