//! Symbols by which Ruby's virtual machine is known: it exports them for extensions.

use std::ops::Range;

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 11] = [
    b"ruby_version",
    b"rb_vm_exec",
    b"rb_sourceline",
    b"rb_vm_get_ruby_level_next_cfp",
    b"rb_iseq_label",
    b"rb_iseq_path",
    b"rb_iseq_first_lineno",
    b"rb_iseq_code_location",
    b"rb_iseq_insns_info_encode_positions",
    b"rb_thread_current",
    b"ruby_current_execution_context_ptr",
];

/// What a module has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RubyMarks {
    /// The text that is its version.
    pub version: Option<RemoteAddr>,
    /// The function that runs scripts.
    pub loop_body: Range<RemoteAddr>,
    /// The variable that leads to the state of the thread that runs scripts, in versions that have such a one.
    pub state: Option<RemoteAddr>,
    /// One that asks for the state of its thread.
    pub reads_state: Range<RemoteAddr>,
    /// One that asks for the thread of a state.
    pub reads_thread: Range<RemoteAddr>,
    /// One that goes from frame to frame.
    pub reads_frames: Range<RemoteAddr>,
    /// Those that read a function's name, file, first line, extent and table of lines.
    pub reads_code: [Range<RemoteAddr>; 5],
}

impl RubyMarks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr, size: u64) {
        let range = at..at.checked_add(size).unwrap_or(at);
        match name {
            b"ruby_version" => self.version = Some(at),
            b"ruby_current_execution_context_ptr" => self.state = Some(at),
            b"rb_vm_exec" => self.loop_body = range,
            b"rb_thread_current" => self.reads_thread = range,
            b"rb_sourceline" => self.reads_state = range,
            b"rb_vm_get_ruby_level_next_cfp" => self.reads_frames = range,
            b"rb_iseq_label" => self.reads_code[0] = range,
            b"rb_iseq_path" => self.reads_code[1] = range,
            b"rb_iseq_first_lineno" => self.reads_code[2] = range,
            b"rb_iseq_code_location" => self.reads_code[3] = range,
            b"rb_iseq_insns_info_encode_positions" => self.reads_code[4] = range,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_symbols_of_the_virtual_machine_are_taken() {
        let (mut marks, at) = (RubyMarks::default(), RemoteAddr::new(0x1000));
        marks.take(b"rb_str_new", at, 8);
        assert_eq!(marks, RubyMarks::default());
        marks.take(b"rb_vm_exec", at, 0x20);
        assert_eq!(marks.loop_body.end, RemoteAddr::new(0x1020));
        marks.take(b"rb_vm_exec", at, u64::MAX);
        assert!(marks.loop_body.is_empty());
        for name in NAMES {
            marks.take(name, at, 0x10);
        }
        assert!(marks.version.is_some() && marks.state.is_some());
        assert!(marks.reads_code.iter().all(|range| !range.is_empty()));
    }
}
