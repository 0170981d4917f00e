//! What an address of code means: module, function, source line, and the calls inlined there.
//!
//! ```text
//! maps --> modules: address -> module, file offset    while the target runs; files are only opened,
//!             |      files::mapped_file                and only those that are mapped
//!           module: file offset -> image address      from here on the target may be gone; several
//!             |      parallel                          modules at once
//!           image    files: elf, debug_file: which bytes
//!             +-> dwarf (reader) -> functions, lines, inlined calls
//!             |      units: of these only; split: in other files
//!             +-> symbol_table   -> the function, where DWARF knows none
//!             |      debug_data: packed
//!             +-> debuginfod   -> debug files of servers, if the user names some
//!             +-> missing        -> what would make it better (packages)
//! perf_map: address -> name, of generated code; generated_name: function, file, line
//! python: address of a Python frame -> function, file, line
//! entries, declared: types and variables of a module
//! ```
//!
//! ```
//! use heapattach_process::proc::{Process, maps};
//! use heapattach_symbols::Symbols;
//!
//! #[inline(never)]
//! fn grow_list(by: usize) -> Vec<usize> {
//!     std::hint::black_box(vec![by; by])
//! }
//!
//! let own = Process::open(std::process::id().cast_signed())?;
//! let text = own.read("maps")?;
//! let mut symbols = Symbols::new();
//! symbols.note(&own, &maps::parse(&text).expect("what the kernel writes"));
//! let frames = symbols.symbolize(grow_list as fn(usize) -> Vec<usize> as usize as u64);
//! let name = frames.last().and_then(|frame| frame.function.as_deref());
//! assert!(name.is_some_and(|name| name.contains("grow_list")), "{frames:?}");
//! # Ok::<(), nix::errno::Errno>(())
//! ```
//!
//! Knows no hook, no event, no profile and no command line, and no processor: of a process only its maps and
//! files.
//!
//! Every file is the target's, hence hostile: a damaged one costs names, never the
//! report. Memory is bounded (`elf::Allowance`, `reader::Meter`), time is not: a file made for
//! it can keep us busy, so this is to be called when the target has been left alone. Of a module's
//! debug information all of it is read at the first address that needs it, unless a table tells what
//! is needed: seconds for a gigabyte.

pub mod declared;
pub mod demangle;
mod dwarf;
pub mod entries;
mod file_cache;
mod files;
mod generated_name;
mod image;
mod kept_names;
mod known;
mod latest;
mod missing;
mod module;
mod modules;
mod names;
mod parallel;
mod perf_map;
pub mod python;
#[cfg(test)]
mod tests;

use heapattach_text::printable;
use std::{collections::HashMap, sync::Arc};

use heapattach_process::{
    cache::Cache,
    generations::Generations,
    proc::{Process, maps::Mapping},
    python_frame::PythonFrame,
};

#[cfg(test)]
pub use crate::tests::folder::skip;
pub use file_cache::FileCache;
use files::debuginfod::Debuginfod;
use generated_name::GeneratedName;
pub use known::{Known, Piece};
pub use missing::Missing;
use modules::Modules;
use perf_map::{PerfMap, Place};
use python::PythonNames;

/// The name of what is in no module.
pub use heapattach_text::module_name::UNKNOWN;

/// So many remembered frames are some eighty megabytes, without their names.
const REMEMBERED_LIMIT: usize = 1 << 20;

/// One call, as the source has it: several share an address where functions were inlined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Path of the module, or what the kernel calls it.
    pub module: Arc<str>,
    /// Where in it, in the ELF file's own numbering. Where that file cannot be read, the offset in
    /// it; in anonymous memory and in no module at all, the address itself.
    pub offset: u64,
    /// The function, demangled.
    pub function: Option<Arc<str>>,
    /// The source file, as the compiler was told it.
    pub file: Option<Arc<str>>,
    /// The line of the call; of generated code that on which the function begins.
    pub line: Option<u32>,
    /// Whether it has no stack frame of its own: the next one of the list called it.
    pub inlined: bool,
}

impl Frame {
    /// Of which only the place is known.
    fn unnamed(module: &Arc<str>, offset: u64) -> Self {
        let module = Arc::clone(module);
        Self { module, offset, function: None, file: None, line: None, inlined: false }
    }
}

/// Names for the addresses of one target.
#[derive(Debug)]
pub struct Symbols {
    modules: Modules,
    generated_at: Option<Place>,
    generated: PerfMap,
    python: PythonNames,
    remembered: HashMap<u64, Arc<[Frame]>>,
    remembered_frames: usize,
    unknown: Arc<str>,
}

impl Default for Symbols {
    fn default() -> Self {
        Self::new()
    }
}

impl Symbols {
    /// Nothing known yet.
    pub fn new() -> Self {
        Self::with(Modules::default(), None)
    }

    fn with(modules: Modules, generated_at: Option<Place>) -> Self {
        Self {
            modules,
            generated_at,
            generated: PerfMap::default(),
            python: PythonNames::default(),
            remembered: HashMap::new(),
            remembered_frames: 0,
            unknown: UNKNOWN.into(),
        }
    }

    /// For a process that was forked from this one's: its modules are the same, and their files are
    /// read once for both.
    pub fn inherited_by(&self, process: &Process) -> Self {
        Self::with(self.modules.unasked(), Place::of(process))
    }

    /// Files are from now on read once for all who have the same cache.
    pub fn read_through(&mut self, cache: FileCache) {
        self.modules.read_through(cache);
    }

    /// From now on [`Self::fetch_returns`] asks the servers that the environment names.
    pub fn ask_servers(&mut self) {
        self.modules.ask(Debuginfod::of_environment());
    }

    /// From now on names that an earlier session found are taken from this cache, and kept in it.
    pub fn keep_names(&mut self, cache: Option<Cache>) {
        self.modules.keep_names(cache.map(Arc::new));
    }

    /// Modules that are read from now on are read with their variables.
    pub fn with_variables(&mut self) {
        self.modules.with_variables();
    }

    /// The variable at `address`, and how far in it, in the module that has this code.
    pub fn variable(&mut self, code: u64, address: u64) -> Option<(Arc<str>, u64)> {
        self.modules.variable(code, address)
    }

    /// The entries of the debug data of each module that has any, with what is to be added to its
    /// addresses. To be called before names are looked up: a file is read once.
    pub fn entries(&mut self, hear: &mut dyn FnMut(&entries::Sections, u64)) {
        self.modules.entries(hear);
    }

    /// Of the modules in a recording.
    pub fn of(known: &[Known]) -> Self {
        Self { python: PythonNames::of(known), ..Self::with(Modules::of(known), None) }
    }

    /// The modules, for a recording.
    pub fn known(&self) -> Vec<Known> {
        self.modules.known().into_iter().chain(self.python.known()).collect()
    }

    /// The number of the module that the byte at `pc` is in, as [`Self::known`] counts them.
    pub fn module_at(&self, pc: u64) -> Option<usize> {
        let python = || self.python.has(pc).then(|| self.modules.iter().count());
        self.modules.number_at(pc).or_else(python)
    }

    /// Notes what is mapped now and opens the files that are new. At each address the latest
    /// mapping counts.
    pub fn note(&mut self, process: &Process, maps: &[Mapping<'_>]) {
        self.note_if(process, maps, || true);
    }

    /// The same of a process that runs: only if it is certain, once its memory was looked at, that the
    /// map was that of this memory. Whether it was.
    pub fn note_if(
        &mut self,
        process: &Process,
        maps: &[Mapping<'_>],
        is_certain: impl FnOnce() -> bool,
    ) -> bool {
        self.generated_at = self.generated_at.take().or_else(|| Place::of(process));
        let noted = self.modules.note(process, maps, is_certain);
        if noted == Some(true) {
            self.forget();
        }
        noted.is_some()
    }

    /// The same of memory that is no process's: `open` answers with the file of code at an address.
    pub fn note_files(
        &mut self,
        maps: &[Mapping<'_>],
        open: &dyn Fn(u64) -> Option<std::fs::File>,
    ) {
        self.modules.note_files(maps, open);
        self.forget();
    }

    /// From now on code comes and goes like this.
    pub fn follow(&mut self, generations: &Arc<Generations>) {
        self.modules.follow(generations);
    }

    /// Notes modules that may be gone again by now.
    pub fn note_generations(&mut self) -> bool {
        let is_new = self.modules.note_generations();
        if is_new {
            self.forget();
        }
        is_new
    }

    /// Reads the names of generated code: late, since it is still being written to. The target may
    /// be gone.
    pub fn note_generated(&mut self) {
        if let (Some(root), Some(place)) = (self.modules.target_root(), &self.generated_at) {
            self.generated = PerfMap::read(root, place);
            self.forget();
        }
    }

    /// Whether names of generated code are known.
    pub fn has_generated(&self) -> bool {
        !self.generated.is_empty()
    }

    /// What is to be known of the age of these names.
    pub fn note_on_generated(&self) -> Option<&str> {
        self.generated.note.as_deref()
    }

    /// Takes the Python frames of a session over.
    pub fn note_python(&mut self, frames: &[PythonFrame]) {
        self.python = PythonNames::of_session(frames);
    }

    /// Before names of the callers at these return addresses are looked up: fetches debug information
    /// that their modules lack, from the servers that the user names. Waits for the network, with
    /// timeouts, and until `watch`, which hears how it goes, wants no more of it.
    pub fn fetch_returns(
        &mut self,
        addresses: impl IntoIterator<Item = u64>,
        watch: &mut dyn FnMut(&str) -> bool,
    ) {
        let pcs = addresses.into_iter().map(|address| address.saturating_sub(1));
        self.modules.fetch(&Vec::from_iter(pcs), watch);
    }

    /// Looks up many addresses at once, so that [`Self::symbolize`] knows them.
    pub fn prepare(&mut self, pcs: impl IntoIterator<Item = u64>) {
        let known = &self.remembered;
        let mut pcs: Vec<u64> = pcs.into_iter().filter(|pc| !known.contains_key(pc)).collect();
        // In this order a module's units are read one after the other.
        pcs.sort_unstable();
        pcs.dedup();
        let room = REMEMBERED_LIMIT.saturating_sub(self.remembered_frames);
        for (pc, frames) in self.modules.all_frames(&pcs, room) {
            // Those without a name may be generated.
            if frames.iter().any(|frame| frame.function.is_some()) {
                self.remember(pc, frames);
            }
        }
    }

    /// The same for [`Self::symbolize_return`].
    pub fn prepare_returns(&mut self, addresses: impl IntoIterator<Item = u64>) {
        self.prepare(addresses.into_iter().map(|address| address.saturating_sub(1)));
    }

    /// The calls at the instruction that holds the byte at `pc`, the innermost first. Never empty.
    pub fn calls(&mut self, pc: u64) -> Arc<[Frame]> {
        if let Some(frames) = self.remembered.get(&pc) {
            return Arc::clone(frames);
        }
        let frames: Arc<[Frame]> = self.look_up(pc).into();
        self.remember(pc, Arc::clone(&frames));
        frames
    }

    /// The same, to keep.
    pub fn symbolize(&mut self, pc: u64) -> Vec<Frame> {
        self.calls(pc).to_vec()
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

    fn remember(&mut self, pc: u64, frames: Arc<[Frame]>) {
        if self.remembered_frames + frames.len() > REMEMBERED_LIMIT {
            self.forget();
        }
        self.remembered_frames += frames.len();
        self.remembered.insert(pc, frames);
    }

    fn look_up(&mut self, pc: u64) -> Vec<Frame> {
        if let Some(frame) = self.python.frame(pc) {
            return vec![frame];
        }
        let frames = self.modules.frames(pc);
        // What was generated since modules were last noted is in none of them.
        let mut frames = frames.unwrap_or_else(|| vec![Frame::unnamed(&self.unknown, pc)]);
        if let [frame] = &mut frames[..]
            && frame.function.is_none()
            && let Some(name) = self.generated.name(pc)
        {
            let GeneratedName { function, file, line } = generated_name::read(&name);
            frame.function = Some(function.into());
            (frame.file, frame.line) = (file.map(Into::into), line);
        }
        frames
    }
}
