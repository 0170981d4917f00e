//! What a recording says of its session in words: at the beginning, and at the end.

use std::{
    io::ErrorKind,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use heapattach_injector::proc::Process;
use nix::{
    time::{ClockId, clock_gettime},
    unistd::{SysconfVar, sysconf},
};

use crate::{
    args::SessionArgs,
    clock::TEMPORARY,
    exit::Exit,
    ledger::About,
    recording::{Heading, Patience, Scribe, Store, Tape},
    report::{RecordingReport, Report},
};

/// Who writes the session down.
pub fn scribe(store: Store, args: &SessionArgs) -> std::io::Result<Scribe> {
    // What nobody can look at later is only asked for its sums.
    // Growth is judged by what happened, too.
    let logs = store.path.is_some() || args.flow;
    Ok(Scribe::new(
        Tape::start(store.file, store.path, args.record.max_size, Patience::default())?,
        logs,
    ))
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

/// How long a process has been running.
fn up_ms(process: &Process) -> Option<u64> {
    let ticks = process.start_time()?;
    let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
    let started = ticks.checked_mul(1000)? / u64::try_from(per_second).ok()?.max(1);
    let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
    u64::try_from(now.as_millis()).ok()?.checked_sub(started)
}

/// What is known at the end.
pub fn fill(about: &mut About, report: &Report, counted: Duration) {
    about.lasted_ms = u64::try_from(counted.as_millis()).unwrap_or(u64::MAX);
    about.every = report.heap.every;
    about.outcome.clone_from(&report.outcome);
    about.exit = report.exit;
    about.loss = report.heap.lost;
    about.blind.clone_from(&report.blind);
    let interpreter = report.interpreter.iter();
    about.blind.extend(
        interpreter.flat_map(|one| one.notes.iter().map(|note| format!("{}: {note}", one.name))),
    );
    let not_hooked = report.not_hooked.iter();
    about.blind.extend(not_hooked.map(|n| format!("{} of {}: {}", n.function, n.module, n.why)));
    let missing = report.missing_symbols.iter();
    let missing = missing.map(|m| format!("{}: {}; {}", m.module, m.why, m.cure));
    about.missing_symbols = missing.collect();
}

/// Says what became of the file.
pub fn note_recording(report: &mut Report, path: Option<PathBuf>, written: std::io::Result<u64>) {
    match (path, written) {
        (None, _) => {}
        (Some(path), Ok(bytes)) => {
            report.recording = Some(RecordingReport { path, bytes, hangs: false });
        }
        (Some(path), Err(error)) => {
            let name = path.display();
            let what =
                format!("the recording {name} ends too early: it cannot be written: {error}");
            report.error.get_or_insert(what);
            report.status = report.status.max(Exit::Failed.code());
            let hangs = error.kind() == ErrorKind::TimedOut;
            report.recording = Some(RecordingReport { path, bytes: 0, hangs });
        }
    }
}
