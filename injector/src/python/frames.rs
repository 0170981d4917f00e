//! The Python frames that stacks lead through, each known by a number.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::python::unpack;

use super::{address_of, code::Codes, interpreter::Interpreter};
use crate::{addr::RemoteAddr, memory::Memory, shared::Shared};

/// Frames that are told apart.
pub const FRAMES_LIMIT: usize = 1 << 20;

/// The name of a function that found no room, or makes no sense.
const UNKNOWN: &str = "[unknown python code]";

/// A place in Python code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PythonFrame {
    /// The function, with the classes and functions around it.
    pub function: Arc<str>,
    /// The file it was compiled from; empty if that is unknown.
    pub file: Arc<str>,
    /// The line of the call.
    pub line: Option<u32>,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Frames {
    codes: Codes,
    all: Vec<PythonFrame>,
    numbers: HashMap<PythonFrame, usize>,
}

impl Frames {
    /// By their numbers.
    pub fn all(&self) -> &[PythonFrame] {
        &self.all
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
        let frame = match self.codes.at(shared, memory, python, code) {
            Some(code) => PythonFrame {
                function: Arc::clone(&code.function),
                file: Arc::clone(&code.file),
                line: code.line(instruction),
            },
            None => PythonFrame { function: UNKNOWN.into(), ..PythonFrame::default() },
        };
        (address_of(self.number_of(frame)), is_outermost)
    }

    /// One more than there is room for share the number of the last.
    fn number_of(&mut self, frame: PythonFrame) -> usize {
        if let Some(&number) = self.numbers.get(&frame) {
            return number;
        }
        if self.all.len() + 1 >= FRAMES_LIMIT {
            let rest = PythonFrame { function: UNKNOWN.into(), ..PythonFrame::default() };
            self.all.truncate(FRAMES_LIMIT - 1);
            self.all.push(rest);
            return FRAMES_LIMIT - 1;
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
        let frame =
            |line| PythonFrame { function: "f".into(), file: "a.py".into(), line: Some(line) };
        let numbers = [7, 8, 7].map(|line| frames.number_of(frame(line)));
        assert_eq!(numbers, [0, 1, 0]);
        assert_eq!(frames.all(), [frame(7), frame(8)]);
    }
}
