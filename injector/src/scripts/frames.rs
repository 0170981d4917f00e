//! The Python frames that stacks lead through, each known by a number.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::python::unpack;

use heapattach_process::{
    addr::RemoteAddr,
    memory::Memory,
    python_frame::{FRAMES_LIMIT, Language, PythonFrame, address_of},
    shared::Shared,
};

use super::{
    code::Codes,
    interpreter::Interpreter,
    java::{Java, JavaWords, Told},
};

/// The name of a function that found no room, or makes no sense.
fn unknown(language: Language) -> PythonFrame {
    let function = match language {
        Language::Python => "[unknown python code]",
        Language::Php => "[unknown php code]",
        Language::Ruby => "[unknown ruby code]",
        Language::Perl => "[unknown perl code]",
        Language::Lua => "[unknown lua code]",
        Language::Java => "[unknown java code]",
        Language::JavaScript => "[unknown javascript code]",
    };
    PythonFrame { language, function: function.into(), ..PythonFrame::default() }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Frames {
    codes: Codes,
    all: Vec<PythonFrame>,
    numbers: HashMap<PythonFrame, usize>,
    /// Numbers by the words of stacks: to look for a line takes long where a target makes it long. No
    /// more words than frames are looked at.
    words: HashMap<u64, usize>,
    java: JavaWords,
}

impl Frames {
    /// By their numbers.
    pub fn all(&self) -> &[PythonFrame] {
        &self.all
    }

    /// Code objects that are known, and bytes of what is kept of them.
    #[cfg(test)]
    pub(crate) fn codes(&self) -> (usize, u64) {
        self.codes.taken()
    }

    /// The frame that a word of a stack tells of: its address, and whether it is the outermost of its
    /// loop.
    pub fn note(
        &mut self,
        shared: &Shared,
        memory: &Memory,
        python: &Interpreter,
        word: u64,
    ) -> (RemoteAddr, bool) {
        let (code, instruction, is_outermost) = unpack(word);
        if let Some(&number) = self.words.get(&word) {
            return (address_of(number), is_outermost);
        }
        if self.words.len() + 1 >= FRAMES_LIMIT {
            return (address_of(self.number_of(unknown(python.language()))), is_outermost);
        }
        let frame = match self.codes.at(shared, memory, python, code) {
            Some(code) => PythonFrame {
                language: python.language(),
                function: Arc::clone(&code.function),
                file: Arc::clone(&code.file),
                line: code.line(instruction),
            },
            None => unknown(python.language()),
        };
        let number = self.number_of(frame);
        self.words.insert(word, number);
        (address_of(number), is_outermost)
    }

    /// The frames that a word of a stack of Java's tells of, put behind others: none of code that runs no method.
    pub(crate) fn note_java(
        &mut self,
        (shared, memory): (&Shared, &Memory),
        java: &Java,
        word: u64,
        frames: &mut Vec<RemoteAddr>,
    ) {
        if let Some(numbers) = self.java.known(word) {
            frames.extend(numbers.iter().map(|&number| address_of(number)));
            return;
        }
        let told = match self.java.has_room() {
            true => self.java.told(shared, memory, java, word),
            false => Told::Frames(None),
        };
        match told {
            Told::Native(at) => frames.push(at),
            Told::Frames(Some(all)) => {
                let numbers: Vec<_> = all.into_iter().map(|frame| self.number_of(frame)).collect();
                frames.extend(numbers.iter().map(|&number| address_of(number)));
                self.java.keep(word, numbers);
            }
            Told::Frames(None) => frames.push(address_of(self.number_of(unknown(Language::Java)))),
        }
    }

    /// There are fewer frames than words, and one for the rest, for which there is no room.
    fn number_of(&mut self, frame: PythonFrame) -> usize {
        if let Some(&number) = self.numbers.get(&frame) {
            return number;
        }
        if self.all.len() + 1 >= FRAMES_LIMIT && !frame.file.is_empty() {
            return self.number_of(unknown(frame.language));
        }
        self.all.push(frame.clone());
        self.numbers.insert(frame, self.all.len() - 1);
        self.all.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_one_number() {
        let mut frames = Frames::default();
        let frame = |line| PythonFrame {
            language: Language::Python,
            function: "f".into(),
            file: "a.py".into(),
            line: Some(line),
        };
        let numbers = [7, 8, 7].map(|line| frames.number_of(frame(line)));
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!(frames.all(), [frame(7), frame(8)]);
    }
}
