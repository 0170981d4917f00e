//! Symbols by which the interpreter is known: it exports them for extension modules and debuggers.

use std::ops::Range;

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 4] =
    [b"_PyRuntime", b"Py_Version", b"PyCode_Type", b"_PyEval_EvalFrameDefault"];

/// What a module has of an interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Its global state.
    pub runtime: Option<RemoteAddr>,
    /// The word that is its version; older ones than 3.11 have none.
    pub version: Option<RemoteAddr>,
    /// The type of code objects.
    pub code_type: Option<RemoteAddr>,
    /// The loop that runs Python code.
    pub eval: Range<RemoteAddr>,
}

impl Marks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr, size: u64) {
        match name {
            b"_PyRuntime" => self.runtime = Some(at),
            b"Py_Version" => self.version = Some(at),
            b"PyCode_Type" => self.code_type = Some(at),
            b"_PyEval_EvalFrameDefault" => self.eval = at..at.checked_add(size).unwrap_or(at),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_symbols_of_the_interpreter_are_taken() {
        let (mut marks, at) = (Marks::default(), RemoteAddr::new(0x1000));
        marks.take(b"PyList_Type", at, 8);
        assert_eq!(marks, Marks::default());
        marks.take(b"_PyRuntime", at, 8);
        marks.take(b"_PyEval_EvalFrameDefault", at, 0x20);
        assert_eq!((marks.runtime, marks.eval.end), (Some(at), RemoteAddr::new(0x1020)));
        marks.take(b"_PyEval_EvalFrameDefault", at, u64::MAX);
        assert!(marks.eval.is_empty());
    }
}
