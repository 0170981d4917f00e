//! What an address of code means: module, function, source line, and the calls inlined there.
//!
//! ```text
//! perf_map: address -> function, of generated code
//! maps --> modules: address -> file, file offset      while the target runs; files are only opened
//!             |
//!           image: file offset -> image address       from here on the target may be gone
//!             |    elf, debug_file: which bytes
//!             +-> dwarf (reader) -> functions, lines, inlined calls
//!             +-> symbol_table   -> the function, where DWARF knows none (debug_data: packed)
//! ```
//!
//! Every file is the target's, hence hostile: whatever is wrong with one costs names, never the
//! report. Memory is bounded ([`elf::Allowance`], [`reader::Meter`]), time is not: a file made for
//! it can keep us busy, so this is to be called when the target has been left alone. Of a module's
//! debug information all of it is read at the first address that needs it: seconds for a gigabyte.

mod build_id;
mod debug_data;
mod debug_file;
mod demangle;
mod dwarf;
mod elf;
#[cfg(test)]
mod folder;
#[cfg(test)]
mod hostile_tests;
mod image;
mod latest;
#[cfg(test)]
mod live_tests;
mod mapped_file;
mod missing;
mod modules;
mod packages;
mod perf_map;
mod printable;
mod reader;
mod root;
mod split_dwarf;
mod symbol_table;

use std::collections::HashMap;

use heapattach_injector::proc::{Process, maps::Mapping};

pub use missing::Missing;
use modules::Modules;
use perf_map::{PerfMap, Place};

/// The name of what is in no module.
pub const UNKNOWN: &str = "[unknown]";

/// So many remembered frames are a few hundred megabytes at the very worst.
const REMEMBERED_LIMIT: usize = 1 << 17;

/// One call, as the source has it: several share an address where functions were inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Path of the module, or what the kernel calls it.
    pub module: String,
    /// Where in it, in the ELF file's own numbering. Where that file cannot be read, the offset in
    /// it; in anonymous memory and in no module at all, the address itself.
    pub offset: u64,
    /// The function, demangled.
    pub function: Option<String>,
    /// The source file, as the compiler was told it.
    pub file: Option<String>,
    /// The line of the call.
    pub line: Option<u32>,
    /// Whether it has no stack frame of its own: the next one of the list called it.
    pub inlined: bool,
}

/// Names for the addresses of one target.
#[derive(Debug, Default)]
pub struct Symbols {
    modules: Modules,
    generated_at: Option<Place>,
    generated: PerfMap,
    remembered: HashMap<u64, Vec<Frame>>,
    remembered_frames: usize,
}

impl Symbols {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what is mapped now and opens the files that are new. At each address the latest
    /// mapping counts.
    pub fn note(&mut self, process: &Process, maps: &[Mapping<'_>]) {
        self.generated_at = self.generated_at.take().or_else(|| Place::of(process));
        if self.modules.note(process, maps) {
            self.forget();
        }
    }

    /// Reads the names of generated code: late, since it is still being written to. The target may
    /// be gone.
    pub fn note_generated(&mut self) {
        if let (Some(root), Some(place)) = (self.modules.target_root(), &self.generated_at) {
            self.generated = PerfMap::read(root, place);
            self.forget();
        }
    }

    /// The calls at the instruction that holds the byte at `pc`, the innermost first. Never empty.
    pub fn symbolize(&mut self, pc: u64) -> Vec<Frame> {
        if let Some(frames) = self.remembered.get(&pc) {
            return frames.clone();
        }
        let frames = self.look_up(pc);
        if self.remembered_frames + frames.len() > REMEMBERED_LIMIT {
            self.forget();
        }
        self.remembered_frames += frames.len();
        self.remembered.insert(pc, frames.clone());
        frames
    }

    /// The same for the call that will return to `address`: that may already be the next function.
    pub fn symbolize_return(&mut self, address: u64) -> Vec<Frame> {
        self.symbolize(address.saturating_sub(1))
    }

    /// The modules without debug information among those that were asked for.
    pub fn missing(&self) -> Vec<Missing> {
        missing::missing(&self.modules)
    }

    fn forget(&mut self) {
        self.remembered.clear();
        self.remembered_frames = 0;
    }

    fn look_up(&mut self, pc: u64) -> Vec<Frame> {
        let frame = |module: &str, offset| Frame {
            module: module.to_owned(),
            offset,
            function: None,
            file: None,
            line: None,
            inlined: false,
        };
        // What was generated since modules were last noted is in none of them.
        let generated = |frame| vec![Frame { function: self.generated.name(pc), ..frame }];
        let Some((module, at)) = self.modules.find(pc) else {
            return generated(frame(UNKNOWN, pc));
        };
        let Some((image, offset)) = image::of(module.image.as_ref(), at) else {
            return generated(frame(&module.name, at));
        };
        let calls = image.calls(offset);
        let last = calls.len().saturating_sub(1);
        let frames = calls.into_iter().enumerate().map(|(depth, call)| Frame {
            function: call.function,
            file: call.file,
            line: call.line,
            inlined: depth < last,
            ..frame(&module.name, offset)
        });
        frames.collect()
    }
}
