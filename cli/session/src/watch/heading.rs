//! What a recording says of its session in words: at the beginning, and at the end.

use std::{
    io::ErrorKind,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::watch::options::WatchOptions;
use heapattach_ledger::{About, Runtime};
use heapattach_process::proc::Process;
use heapattach_profile::clock::TEMPORARY;
use heapattach_recording::{Cut, Heading, Patience, SessionWriter, Store, WriteQueue};
use heapattach_report::{CutReport, RecordingReport, Report};
use heapattach_text::quantity;

/// Who writes the session down.
pub fn session_writer(store: Store, options: &WatchOptions) -> std::io::Result<SessionWriter> {
    // A recording without a path cannot be opened later: only its sums are needed.
    // Growth is judged by what happened, too.
    let logs = store.path.is_some() || options.flow;
    Ok(SessionWriter::new(
        WriteQueue::start(store.file, store.path, options.record.max_size, Patience::default())?,
        logs,
    ))
}

/// Writes sums at one moment, without what happened when.
pub fn plain_writer(store: Store) -> std::io::Result<SessionWriter> {
    let queue = WriteQueue::start(store.file, store.path, u64::MAX, Patience::default())?;
    Ok(SessionWriter::new(queue, false))
}

/// What is known at the beginning.
pub fn heading(
    command: String,
    hide_frames: &[String],
    (pid, every): (i32, u64),
    process: &Process,
) -> Heading {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let about = About {
        pid,
        command,
        began: began.as_secs(),
        up_ms: up_ms(process).unwrap_or(0),
        every,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        temporary_ms: u64::try_from(TEMPORARY.as_millis()).unwrap_or(u64::MAX),
        ..About::default()
    };
    Heading { about, hide_frames: hide_frames.to_vec(), ..Heading::default() }
}

fn up_ms(process: &Process) -> Option<u64> {
    u64::try_from(process.running_for()?.as_millis()).ok()
}

/// What is known at the end besides what is missing.
pub fn fill(about: &mut About, report: &Report, counted: Duration) {
    about.lasted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
    about.outcome = report.outcome.into();
    about.exit = report.exit;
    about.blind.clone_from(&report.blind);
    about.runtimes.clone_from(&report.runtimes);
    about.blind.extend(report.runtimes.iter().flat_map(Runtime::gaps));
    let not_hooked = report.not_hooked.iter();
    about.blind.extend(not_hooked.map(|n| format!("{} of {}: {}", n.function, n.module, n.why)));
    let missing = report.missing_symbols.iter();
    let missing = missing.map(|m| format!("{}: {}; {}", m.module, m.why, m.cure));
    about.missing_symbols = missing.collect();
}

/// Says what became of the file.
pub fn note_recording(report: &mut Report, path: Option<PathBuf>, written: Result<u64, Cut>) {
    let Some(path) = path else { return };
    let cut = match written {
        Ok(bytes) => {
            report.recording = Some(RecordingReport { path, bytes, ..RecordingReport::default() });
            return;
        }
        Err(cut) => cut,
    };
    let (name, length) = (path.display(), cut.bytes);
    let bytes = quantity::bytes(length);
    let after = cut.after.map(|after| format!(" {} after it began,", quantity::time(after)));
    let what = format!(
        "the recording {name} ends too early: it cannot be written: {}; it ends{} with {bytes}",
        cut.error,
        after.unwrap_or_default()
    );
    report.error.get_or_insert(what);
    report.status = report.status.or_failed();
    let hangs = cut.error.kind() == ErrorKind::TimedOut;
    let after_ms = cut.after.and_then(|after| u64::try_from(after.as_millis()).ok());
    let why = cut.error.to_string();
    let cut = Some(CutReport { after_ms, why });
    report.recording = Some(RecordingReport { path, bytes: length, hangs, cut });
}
