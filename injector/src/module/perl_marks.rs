//! Symbols by which Perl's interpreter is known: it exports them for extensions. One is the C library's.

use std::ops::Range;

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 10] = [
    b"PL_revision",
    b"PL_version",
    b"PL_subversion",
    b"PL_interp_size",
    b"PL_thr_key",
    b"Perl_runops_standard",
    b"Perl_caller_cx",
    b"Perl_mess_sv",
    b"Perl_cv_name",
    b"pthread_getspecific",
];

/// What a module has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PerlMarks {
    /// The bytes of its version.
    pub version: [Option<RemoteAddr>; 3],
    /// Bytes of an interpreter: two of them say that.
    pub interpreter_size: Option<RemoteAddr>,
    /// By what number threads know their interpreter, where there are threads.
    pub thread_key: Option<RemoteAddr>,
    /// The loop that runs scripts.
    pub loop_body: Range<RemoteAddr>,
    /// A function that goes from context to context.
    pub reads_contexts: Range<RemoteAddr>,
    /// A function that tells of the statement that runs.
    pub reads_statement: Range<RemoteAddr>,
    /// A function that reads the name of a function.
    pub reads_name: Range<RemoteAddr>,
    /// The C library's function that threads find their own things by.
    pub reads_thread: Range<RemoteAddr>,
}

impl PerlMarks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr, size: u64) {
        let range = at..at.checked_add(size).unwrap_or(at);
        match name {
            b"PL_revision" => self.version[0] = Some(at),
            b"PL_version" => self.version[1] = Some(at),
            b"PL_subversion" => self.version[2] = Some(at),
            b"PL_interp_size" => self.interpreter_size = Some(at),
            b"PL_thr_key" => self.thread_key = Some(at),
            b"Perl_runops_standard" => self.loop_body = range,
            b"Perl_caller_cx" => self.reads_contexts = range,
            b"Perl_mess_sv" => self.reads_statement = range,
            b"Perl_cv_name" => self.reads_name = range,
            b"pthread_getspecific" => self.reads_thread = range,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_symbols_of_the_interpreter_are_taken() {
        let (mut marks, at) = (PerlMarks::default(), RemoteAddr::new(0x1000));
        marks.take(b"Perl_newSV", at, 8);
        assert_eq!(marks, PerlMarks::default());
        for name in NAMES {
            marks.take(name, at, 0x10);
        }
        assert_eq!(marks.loop_body, at..RemoteAddr::new(0x1010));
        assert!(marks.version.iter().all(Option::is_some) && marks.thread_key.is_some());
        marks.take(b"Perl_runops_standard", at, u64::MAX);
        assert!(marks.loop_body.is_empty());
    }
}
