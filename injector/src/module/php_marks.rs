//! Symbols by which PHP's engine is known: it exports them for extensions.

use std::ops::Range;

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 4] = [
    b"executor_globals",
    b"execute_ex",
    b"zend_get_executed_scope",
    b"zend_get_executed_filename_ex",
];

/// What a module has of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhpMarks {
    /// Its global state, in a build without threads.
    pub globals: Option<RemoteAddr>,
    /// The loop that runs scripts.
    pub loop_body: Range<RemoteAddr>,
    /// A function that reads the innermost frame.
    pub reads_frame: Range<RemoteAddr>,
    /// A function that reads a frame's file.
    pub reads_file: Range<RemoteAddr>,
}

impl PhpMarks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr, size: u64) {
        let range = at..at.checked_add(size).unwrap_or(at);
        match name {
            b"executor_globals" => self.globals = Some(at),
            b"execute_ex" => self.loop_body = range,
            b"zend_get_executed_scope" => self.reads_frame = range,
            b"zend_get_executed_filename_ex" => self.reads_file = range,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_symbols_of_the_engine_are_taken() {
        let (mut marks, at) = (PhpMarks::default(), RemoteAddr::new(0x1000));
        marks.take(b"executor", at, 8);
        assert_eq!(marks, PhpMarks::default());
        marks.take(b"execute_ex", at, 0x20);
        assert_eq!(marks.loop_body.end, RemoteAddr::new(0x1020));
        marks.take(b"execute_ex", at, u64::MAX);
        assert!(marks.loop_body.is_empty());
    }
}
