//! `report --format parquet`: a recording as a folder of tables.

use heapattach_export::columns::Labels;
use heapattach_ledger::{Ledger, Memory};
use heapattach_recording::Recording;

use super::{STACKS, put};
use crate::{
    args::{FileFormat, ReportArgs},
    exit_status::Exit,
    next_command,
    open_recording::refuse,
    output::complain,
};

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
    let labels = Labels {
        host: args.host.as_deref().unwrap_or_default(),
        service: args.service.as_deref(),
        stacks: look.limit.unwrap_or(STACKS),
        metric: look.metric(),
        is_slot: false,
    };
    match put(&recording, &chosen, &labels, folder) {
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

fn usage(why: &str) -> Exit {
    complain(why);
    Exit::Usage
}
