//! `-p PID -o FOLDER.parquet`: the tables of a session that has just ended, with those of all its processes, and then no
//! recording. Where tables cannot be written the recording stays.

use std::{fs, path::Path};

use heapattach_export::columns::Labels;
use heapattach_ledger::{Ledger, Memory, Metric};
use heapattach_recording::Recording;
use heapattach_report::{RecordingReport, Report};
use heapattach_text::error_chain::with_causes;

use super::{STACKS, put, this_machine};
use crate::args::TablesArgs;

/// Writes them where that was asked for; answers whether they were written.
///
/// # Errors
/// Why not, and where the recording is.
pub fn of_session(
    report: &mut Report,
    args: &TablesArgs,
    folder: Option<&Path>,
) -> Result<bool, String> {
    let Some(folder) = folder else { return Ok(false) };
    let own_name = this_machine();
    let host = args.host.as_deref().unwrap_or(&own_name);
    let mut is_written = false;
    for one in &mut report.processes {
        is_written |= of_session(one, args, Some(folder))?;
    }
    let Some(recording) = &report.recording else { return Ok(is_written) };
    // Where the command line is left out of the recording, its first word is the service all the same.
    let path = report.command.split(' ').next().unwrap_or_default();
    let name = path.rsplit('/').next().filter(|name| !name.is_empty());
    let labels = Labels {
        host,
        service: args.service.as_deref().or(name),
        stacks: STACKS,
        metric: Metric::Live,
        is_slot: false,
    };
    of_recording(recording, &labels, folder).map_err(|why| {
        format!("no tables: {why}; the recording is {}", recording.path.display())
    })?;
    report.recording = None;
    Ok(true)
}

fn of_recording(of: &RecordingReport, labels: &Labels<'_>, folder: &Path) -> Result<(), String> {
    if of.hangs {
        return Err("the disk of the recording takes nothing any more".to_owned());
    }
    let recording = Recording::open(&of.path).map_err(|error| with_causes(&error))?;
    put(&recording, &|ledger: Ledger| ledger.of(Memory::All), labels, folder)?;
    // Also one that ends too early: all that it has is in the tables, and the report says when it ends.
    fs::remove_file(&of.path).map_err(|error| format!("it cannot be removed: {error}"))
}
