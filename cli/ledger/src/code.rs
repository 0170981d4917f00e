//! Code that allocated memory: modules, functions, addresses, stacks of calls.

use serde::{Deserialize, Serialize};

use heapattach_text::{glob::matches, short_name::short_name};

/// A file of code, or what the kernel calls it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Module {
    /// Its path, printable.
    pub path: String,
    /// The identity of its build, in hexadecimal digits; empty if it has none.
    pub build_id: String,
    /// Where its first piece of code was mapped; 0 if that is unknown.
    pub start: u64,
    /// Where its last piece of code ended; 0 if that is unknown.
    pub end: u64,
    /// What must be subtracted from an address to have it in the file's own numbers.
    pub bias: u64,
    /// Where in the file that is which was mapped at `start`. Recordings of old do not say.
    pub file_offset: Option<u64>,
}

impl Module {
    /// Where in the file its first piece of code is; if that is not known, where it is in most files.
    pub fn offset_of_start(&self) -> u64 {
        self.file_offset.unwrap_or_else(|| self.start.saturating_sub(self.bias))
    }
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Function {
    /// Demangled; `module+0x123` where no name is known.
    pub name: String,
    /// Its source file; empty if that is unknown.
    pub file: String,
    /// The module it is in.
    pub module: u32,
    /// Whether `name` is one of the program's, not made of an address.
    pub is_named: bool,
    /// The name as it is shown; empty: as it is. It is never written down.
    #[serde(skip)]
    pub short: String,
}

impl Function {
    /// Whether its name fits a pattern: as it is, without its arguments, or as it is shown.
    pub fn is_like(&self, glob: &str) -> bool {
        let without = self.name.split('(').next().unwrap_or(&self.name);
        matches(glob, &self.name)
            || matches(glob, without)
            || matches(glob, &short_name(&self.name))
    }

    /// The name for a reader.
    pub fn shown(&self) -> &str {
        if self.short.is_empty() { &self.name } else { &self.short }
    }
}

/// An address that a call returns to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Location {
    /// The address in the target.
    pub address: u64,
    /// The module it is in.
    pub module: u32,
    /// In the numbers of that module's file.
    pub offset: u64,
    /// The call there, and the calls of functions that were inlined into it; the innermost first,
    /// and never none.
    pub lines: Vec<Line>,
}

/// A line of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// The function.
    pub function: u32,
    /// The line of the call.
    pub line: Option<u32>,
}

/// One call of a stack, with everything about it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Where it returns to.
    pub location: &'a Location,
    /// In which module that is.
    pub module: &'a Module,
    /// The function that makes the call.
    pub function: &'a Function,
    /// The line of the call.
    pub line: Option<u32>,
    /// Whether it has no frame of its own: the next call of the stack contains it.
    pub is_inlined: bool,
}
