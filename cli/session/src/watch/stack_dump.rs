//! Every distinct stack of allocations as bare addresses, for users who want to look at stacks
//! themselves: `--stacks FILE`.
//!
//! The tracing process writes them where the command can read them; only that writes the file, so
//! that no tracing process waits for a file that may never be ready.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use heapattach_process::{
    event::StackId,
    generations::Generations,
    stack::{Stack, StackEnd},
};
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::watch::intake::Recorder;
use heapattach_files::output_file::{self, Readers};
use heapattach_ledger::EndReason;
use heapattach_profile::Flow;

/// The first line; the format changes with its number.
const TITLE: &str = "# heapattach/stacks/1";

/// The stacks of what a process was last, between the two processes of a session.
#[derive(Clone, Debug)]
pub struct StackList {
    file: Arc<File>,
    /// Whose are written, and whose these are: programs that one process became are numbered.
    written: Arc<Mutex<usize>>,
    number: usize,
}

impl StackList {
    /// An empty one.
    ///
    /// # Errors
    /// No descriptor is left, or no memory.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create(c"heapattach-stacks", MFdFlags::MFD_CLOEXEC)?);
        Ok(Self { file: Arc::new(file), written: Arc::default(), number: 0 })
    }

    /// For another program that the process became.
    pub fn of_program(&self, number: usize) -> Self {
        Self { number, ..self.clone() }
    }

    /// Writes those of a program, unless those of a later one are there.
    ///
    /// # Errors
    /// No memory is left.
    pub fn write(&self, recorder: &Recorder) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.number < *written {
            return Ok(());
        }
        *written = self.number;
        let mut file = &*self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        tell(&mut BufWriter::new(file), recorder)
    }

    /// Writes the file that the user named, if there was a session.
    ///
    /// # Errors
    /// With its name, and why it could not be.
    pub fn deliver(&self, path: &Path) -> Result<(), String> {
        let mut text = Vec::new();
        let mut file = &*self.file;
        let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut text));
        match read {
            Ok(0) => Ok(()),
            Ok(_) => output_file::write(path, text, Readers::Owner),
            Err(error) => Err(format!("{} cannot be written: {error}", path.display())),
        }
    }
}

/// A line a stack: allocations recorded, why it ends, and return addresses, innermost first.
fn tell(file: &mut impl Write, recorder: &Recorder) -> io::Result<()> {
    writeln!(file, "{TITLE}")?;
    // Python frames have no addresses that another program could resolve.
    let mut native: BTreeMap<StackId, u64> = BTreeMap::new();
    for site in recorder.profile().sites_by(Flow::Allocated) {
        let stack = recorder.records.stack(site.stack).and_then(|stack| stack.native);
        *native.entry(stack.unwrap_or(site.stack)).or_default() +=
            site.heap.samples(Flow::Allocated);
    }
    for (stack, allocations) in native.into_iter().filter(|(_, allocations)| *allocations > 0) {
        let generations = recorder.records.generations();
        write_stack(file, allocations, recorder.records.stack(stack), generations)?;
    }
    file.flush()
}

fn write_stack(
    file: &mut impl Write,
    allocations: u64,
    stack: Option<&Stack>,
    generations: &Generations,
) -> io::Result<()> {
    let end = stack.map_or(StackEnd::Lost, |stack| stack.end);
    write!(file, "{allocations} {}", reason(end).word())?;
    for frame in stack.iter().flat_map(|stack| &stack.frames) {
        write!(file, " {:#x}", generations.true_address(*frame).get())?;
    }
    writeln!(file)
}

/// Why a stack ends, as reports have it.
pub fn reason(end: StackEnd) -> EndReason {
    match end {
        StackEnd::Outermost => EndReason::Outermost,
        StackEnd::Depth => EndReason::Depth,
        StackEnd::Unbounded => EndReason::OffStack,
        StackEnd::NoTable => EndReason::NoTable,
        StackEnd::NoRule => EndReason::NoRule,
        StackEnd::Implausible => EndReason::Implausible,
        StackEnd::Late => EndReason::JustLoaded,
        StackEnd::Lost => EndReason::NoRoom,
    }
}
