//! Recordings as folders of tables, for columnar engines: of `report`, of a session that has just ended, and of an
//! agent.

mod report;
mod session;

use std::{fs, ops::Range, path::Path, time::Duration};

use heapattach_export::columns::{self, Fill, Labels, Session};
use heapattach_files::{folder, output_file::Readers, whole_file};
use heapattach_ledger::Ledger;
use heapattach_recording::{Part, Recording};

pub use report::write;
pub use session::of_session;

/// So many stacks have rows of their own.
pub const STACKS: usize = 20;

/// Writes the tables of a recording, of all of it and of parts of its time as they are `chosen`. Each file is there whole
/// or not at all.
pub fn put(
    recording: &Recording,
    chosen: &dyn Fn(Ledger) -> Ledger,
    labels: &Labels<'_>,
    folder: &Path,
) -> Result<(), String> {
    let whole = chosen(recording.ledger(None));
    let mut part = |window: Range<Duration>| {
        chosen(recording.part(&Part { window: Some(window), ..Part::default() }))
    };
    let session = Session { whole: &whole, part: &mut part, marks: recording.marks() };
    columns::write(session, labels, &mut |path, fill| save(folder, path, fill))
}

/// The name of this machine; empty where it has none.
pub fn this_machine() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Names and arguments of a program are for the owner of a file alone.
fn save(root: &Path, path: &Path, fill: Fill<'_>) -> Result<(), String> {
    let path = root.join(path);
    if let Some(parent) = path.parent() {
        folder::make(parent, 0o777)
            .map_err(|error| format!("{} cannot be made: {error}", parent.display()))?;
    }
    whole_file::write(&path, root, Readers::Owner, |out| fill(out))
}
