//! `report --format parquet`: a recording as a folder of tables.

use std::{fs, ops::Range, path::Path, time::Duration};

use heapattach_export::columns::{self, Fill, Labels, Session};
use heapattach_files::output_file::{self, Readers};
use heapattach_ledger::{Ledger, Memory};
use heapattach_recording::{Part, Recording};

use crate::{
    args::{FileFormat, ReportArgs},
    exit_status::Exit,
    next_command,
    open_recording::refuse,
    output::complain,
};

/// So many stacks have rows of their own.
const STACKS: usize = 20;

/// Writes the tables.
pub fn write(args: &ReportArgs) -> Exit {
    let look = &args.look;
    let folder = match (&look.output, args.since.or(args.until), &look.age) {
        (None, ..) => return usage("--format parquet writes a folder of files; name it with -o"),
        (Some(path), ..) if path.as_os_str() == "-" => {
            return usage("--format parquet writes a folder of files, not to standard output");
        }
        (_, Some(_), _) | (.., Some(_)) => {
            return usage("--format parquet is of all of a session: no --since, --until, --age");
        }
        (Some(folder), None, None) => folder,
    };
    let recording = match Recording::open(&args.file) {
        Ok(recording) => recording,
        Err(error) => return refuse(&error),
    };
    if let Some(damage) = recording.damage() {
        complain(&format!("{}: {damage}; what is before is whole", args.file.display()));
    }
    let chosen = |ledger: Ledger| {
        let ledger = look.filter().part_of(ledger);
        // What the program mapped itself is told beside its blocks, as by the other formats.
        ledger.of(look.memory().unwrap_or(Memory::All))
    };
    let whole = chosen(recording.ledger(None));
    let mut part = |window: Range<Duration>| {
        chosen(recording.part(&Part { window: Some(window), ..Part::default() }))
    };
    let labels = Labels {
        host: args.host.as_deref().unwrap_or_default(),
        service: args.service.as_deref(),
        stacks: look.limit.unwrap_or(STACKS),
        metric: look.metric(),
    };
    let session = Session { whole: &whole, part: &mut part, marks: recording.marks() };
    let written = columns::write(session, &labels, &mut |path, fill| save(folder, path, fill));
    match written {
        Ok(()) => {
            complain(&next_command::written(folder, FileFormat::Parquet));
            Exit::Done
        }
        Err(error) => {
            complain(&error);
            Exit::Failed
        }
    }
}

/// Names and arguments of a program are for the owner of a file alone.
fn save(folder: &Path, path: &Path, fill: Fill<'_>) -> Result<(), String> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .map_err(|error| format!("{} cannot be made: {error}", parent.display()))?;
    }
    output_file::write_with(&path, Readers::Owner, |out| fill(out))
}

fn usage(why: &str) -> Exit {
    complain(why);
    Exit::Usage
}
