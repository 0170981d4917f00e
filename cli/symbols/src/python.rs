//! Names of frames of Python, PHP, Ruby, Perl, Lua, Java and JavaScript, as the session found them: they cannot be looked up again later.

use std::{ops::Range, sync::Arc};

use heapattach_process::python_frame::{FIRST, Language, PythonFrame, STRIDE, number_at};

use crate::{
    Frame,
    known::{Known, Piece, PythonCall},
    printable::printable,
};

/// What stands for a module of Python frames.
pub use heapattach_text::module_name::PYTHON;
use heapattach_text::module_name::{JAVA, JAVASCRIPT, LUA, PERL, PHP, RUBY};

/// A Python function in a recording that is to have no names.
const NAMELESS: &str = "[script code]";

/// All Python frames of a session.
#[derive(Debug, Default)]
pub struct PythonNames {
    /// Of one language: a session reads one interpreter.
    language: Language,
    calls: Vec<PythonCall>,
}

impl PythonNames {
    /// As the session knows them.
    pub fn of_session(frames: &[PythonFrame]) -> Self {
        let language = language(frames);
        Self { language, calls: frames.iter().map(PythonCall::from).collect() }
    }

    /// As a recording has them.
    pub fn of(known: &[Known]) -> Self {
        let python = known.iter().find(|known| known.is_python());
        let language = match python.map(|known| &*known.path) {
            Some(PHP) => Language::Php,
            Some(RUBY) => Language::Ruby,
            Some(PERL) => Language::Perl,
            Some(LUA) => Language::Lua,
            Some(JAVA) => Language::Java,
            Some(JAVASCRIPT) => Language::JavaScript,
            _ => Language::Python,
        };
        Self { language, calls: python.map(|known| known.python.clone()).unwrap_or_default() }
    }

    /// For a recording; `None` if there are none.
    pub fn known(&self) -> Option<Known> {
        (!self.calls.is_empty()).then(|| known(self.language, self.calls.clone()))
    }

    /// Whether an address is one of theirs.
    pub fn has(&self, address: u64) -> bool {
        number_at(address).is_some_and(|number| number < self.calls.len())
    }

    /// The frame at an address.
    pub fn frame(&self, address: u64) -> Option<Frame> {
        let call = self.calls.get(number_at(address)?)?;
        let file = printable(&call.file);
        Some(Frame {
            module: module(self.language).into(),
            offset: address,
            function: Some(printable(&call.function).into()),
            file: (!file.is_empty()).then(|| Arc::from(file)),
            line: call.line,
            inlined: false,
        })
    }
}

/// What a recording keeps of Python frames: without names only that there are so many.
pub fn known_of_session(frames: &[PythonFrame], has_names: bool) -> Option<Known> {
    if has_names {
        return PythonNames::of_session(frames).known();
    }
    let call = PythonCall { function: NAMELESS.to_owned(), ..PythonCall::default() };
    PythonNames { language: language(frames), calls: vec![call; frames.len()] }.known()
}

fn language(frames: &[PythonFrame]) -> Language {
    frames.first().map(|frame| frame.language).unwrap_or_default()
}

fn module(language: Language) -> &'static str {
    match language {
        Language::Python => PYTHON,
        Language::Php => PHP,
        Language::Ruby => RUBY,
        Language::Perl => PERL,
        Language::Lua => LUA,
        Language::Java => JAVA,
        Language::JavaScript => JAVASCRIPT,
    }
}

fn known(language: Language, python: Vec<PythonCall>) -> Known {
    let Range { start, end } = FIRST..FIRST + python.len() as u64 * STRIDE;
    let pieces = vec![Piece { start, end, file_offset: start }];
    let path = module(language).to_owned();
    Known { path, build_id: String::new(), pieces, python }
}

impl From<&PythonFrame> for PythonCall {
    fn from(frame: &PythonFrame) -> Self {
        Self {
            function: frame.function.to_string(),
            file: frame.file.to_string(),
            line: frame.line,
        }
    }
}

#[cfg(test)]
mod tests {
    use heapattach_process::python_frame::address_of;

    use super::*;

    #[test]
    fn a_frame_is_the_same_out_of_a_recording() {
        let frame = |function: &str, line| PythonFrame {
            language: Language::Php,
            function: function.into(),
            file: "/srv/app.py".into(),
            line,
        };
        let names = PythonNames::of_session(&[frame("f", Some(7)), frame("C.g\u{1b}", None)]);
        let text = serde_json::to_string(&names.known()).unwrap();
        let known: Known = serde_json::from_str(&text).unwrap();
        let again = PythonNames::of(&[Known::default(), known]);
        for number in 0..2 {
            let pc = address_of(number).get() - 1;
            assert!(again.has(pc));
            assert_eq!(again.frame(pc), names.frame(pc));
        }
        let told = again.frame(address_of(1).get()).unwrap();
        assert!(!told.function.unwrap().contains('\u{1b}'));
        assert_eq!(told.module.as_ref(), PHP);
        assert_eq!(again.frame(address_of(2).get()), None);
        assert!(PythonNames::default().known().is_none());
    }

    #[test]
    fn a_recording_without_names_has_none_of_python_either() {
        let frame = PythonFrame { function: "secret".into(), ..PythonFrame::default() };
        let known = known_of_session(&[frame], false).unwrap();
        assert!(!serde_json::to_string(&known).unwrap().contains("secret"));
        assert!(PythonNames::of(&[known]).has(FIRST));
    }
}
