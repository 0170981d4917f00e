//! Every distinct stack of allocations as bare addresses, for whoever wants to look at stacks
//! themselves: `--stacks FILE`.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use heapattach_injector::{
    event::StackId,
    stacks::{Stack, StackEnd},
};

use crate::{profile::Flow, recorder::Recorder};

/// The first line; the format changes with its number.
const TITLE: &str = "# heapattach/stacks/1";

/// Writes a line a stack: allocations recorded, why it ends, and return addresses, innermost first.
///
/// # Errors
/// When the file cannot be written. One that is there already is written over; a link is not
/// followed.
pub fn write(path: &Path, recorder: &Recorder) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = BufWriter::new(options.open(path)?);
    writeln!(file, "{TITLE}")?;
    // Python frames have no addresses that anybody else could make sense of.
    let mut native: BTreeMap<StackId, u64> = BTreeMap::new();
    for site in recorder.profile().sites_by(Flow::Allocated) {
        let stack = recorder.records.stack(site.stack).and_then(|stack| stack.native);
        *native.entry(stack.unwrap_or(site.stack)).or_default() +=
            site.heap.samples(Flow::Allocated);
    }
    for (stack, allocations) in native.into_iter().filter(|(_, allocations)| *allocations > 0) {
        write_stack(&mut file, allocations, recorder.records.stack(stack))?;
    }
    file.flush()
}

fn write_stack(file: &mut impl Write, allocations: u64, stack: Option<&Stack>) -> io::Result<()> {
    let end = stack.map_or(StackEnd::Lost, |stack| stack.end);
    write!(file, "{allocations} {}", name(end))?;
    for frame in stack.iter().flat_map(|stack| &stack.frames) {
        write!(file, " {:#x}", frame.get())?;
    }
    writeln!(file)
}

/// Why a stack ends, in one word.
pub fn name(end: StackEnd) -> &'static str {
    match end {
        StackEnd::Outermost => "outermost",
        StackEnd::Depth => "depth",
        StackEnd::Unbounded => "off-stack",
        StackEnd::NoTable => "no-table",
        StackEnd::NoRule => "no-rule",
        StackEnd::Implausible => "implausible",
        StackEnd::Lost => "no-room",
    }
}
