//! `--profile FILE --apply prof_active=true`: jemalloc's own profiler samples for as long as a session lasts, where it
//! was built in and made ready (`opt.prof`), and its program has not switched it on.
//!
//! ```text
//! note, outside of the target -> is it on? (gate) -> noted -> on (gate) -> ... -> off (gate) -> note removed
//! ```
//!
//! Each is a call of `mallctl("prof.active")` by a thread of the process at the gate. A profiler that is on already is
//! left as it is. After a SIGKILL of both processes, the note tells [`undo_orphaned`] that it is to be switched off.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use heapattach_injector::{
    attach::{
        PayloadImage,
        gate::{Argument, Call, Called},
    },
    target::Target,
};
use heapattach_process::proc::Process;
use heapattach_report::{AppliedReport, Status, TargetState};
use heapattach_text::error_chain::with_causes;

use super::{
    decay::MALLCTL,
    gated::{Failed, Gate, int, refused},
    trim,
};
use crate::{
    fork,
    note::{self, Kind, Note},
};

/// As it is typed.
pub const NAME: &str = "prof_active=true";
const CONTROL: &str = "prof.active";
/// A bool's.
const BYTES: u64 = 1;
/// How often it is tried to switch it off while that is refused, and how far apart.
const ATTEMPTS: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(500);

/// Switches it on, tells that, waits until the command says that it is enough, or is gone, and switches it off.
pub fn session(mut line: UnixStream, target: &Target, image: &PayloadImage, most: Duration) {
    fork::leave_session();
    let mut report = AppliedReport { remedy: NAME.to_owned(), ..AppliedReport::default() };
    let note = match switch_on(target, image, most, &mut report) {
        Ok(note) => note,
        Err((status, error)) => {
            tell(&mut line, &report.failed(status, error));
            return;
        }
    };
    tell(&mut line, &report);
    // Nothing is ever said: it ends.
    let _ = line.read(&mut [0]);
    let mut report = AppliedReport { remedy: NAME.to_owned(), ..AppliedReport::default() };
    let report =
        match note.map_or(Ok(()), |note| switch_off(target, image, most, note, &mut report)) {
            Ok(()) => report,
            Err((status, error)) => report.failed(status, error),
        };
    heapattach_process::fault::summary();
    tell(&mut line, &report);
}

fn tell(line: &mut UnixStream, report: &AppliedReport) {
    let mut text = serde_json::to_vec(report).unwrap_or_default();
    text.push(b'\n');
    // The command may be gone.
    let _ = line.write_all(&text);
}

/// A note, if it was off.
fn switch_on(
    target: &Target,
    image: &PayloadImage,
    most: Duration,
    report: &mut AppliedReport,
) -> Result<Option<Note>, Failed> {
    let words = |is_on: bool| format!("prof_active={is_on}");
    // From here on `detach` sees that a session is at work.
    let note = Note::make(&target.process, Kind::ProfActive, 0, 0);
    let mut note = note.map_err(|error| refused(error.to_string()))?;
    let was_on = match call(target, image, most, None, report) {
        Ok(was_on) => was_on,
        Err(failed) => {
            note.remove();
            return Err(failed);
        }
    };
    report.call = Some(format!("mallctl(\"{CONTROL}\")"));
    report.setting_before = Some(words(was_on));
    report.setting_after = Some(words(true));
    if was_on {
        note.remove();
        return Ok(None);
    }
    if let Err(error) = note.change(1) {
        note.remove();
        let error = format!("{error} (target: {})", TargetState::Restored);
        return Err((Status::Failed, error));
    }
    match call(target, image, most, Some(true), report) {
        Ok(_) => Ok(Some(note)),
        Err((status, error)) => {
            // What was not called is not to be undone; else `detach` is.
            if status == Status::Refused {
                note.remove();
                return Err((status, error));
            }
            let mut undone = AppliedReport::default();
            switch_off(target, image, most, note, &mut undone)?;
            Err((status, error))
        }
    }
}

fn switch_off(
    target: &Target,
    image: &PayloadImage,
    most: Duration,
    note: Note,
    report: &mut AppliedReport,
) -> Result<(), Failed> {
    let pid = target.process.pid();
    let mut done = call(target, image, most, Some(false), report);
    // Another heapattach may be at work on it just now.
    for _ in 0..ATTEMPTS {
        if !matches!(done, Err((Status::Refused, _))) || !target.process.is_alive() {
            break;
        }
        thread::sleep(BETWEEN);
        done = call(target, image, most, Some(false), report);
    }
    match done {
        Err((_, why)) if target.process.is_alive() => Err((
            Status::Left,
            format!(
                "{CONTROL} of process {pid} is still true: {why}; switch it off with `heapattach detach -p {pid}` when a \
                 thread of it allocates"
            ),
        )),
        Ok(_) | Err(_) => {
            note.remove();
            Ok(())
        }
    }
}

/// Reads it, and sets it if that is wanted; answers what it was.
fn call(
    target: &Target,
    image: &PayloadImage,
    most: Duration,
    wanted: Option<bool>,
    report: &mut AppliedReport,
) -> Result<bool, Failed> {
    let function = trim::find(target, &MALLCTL).map_err(refused)?;
    let [value, bytes] = match wanted {
        Some(_) => [Argument::Value, Argument::Number(BYTES)],
        None => [Argument::Zero; 2],
    };
    let call = Call {
        function,
        arguments: [Argument::Text, Argument::Answer, Argument::AnswerBytes, value, bytes],
        text: CONTROL.to_owned(),
        value: wanted.unwrap_or_default().into(),
        answer: BYTES,
        starts_thread: false,
    };
    let gate = Gate { target, image, most };
    let Called { results, answers, error, .. } = gate.call(&[call], report)?;
    let failed =
        |why: String| (Status::Failed, format!("{why} (target: {})", TargetState::Restored));
    if let Some(error) = error {
        return Err(failed(with_causes(&error)));
    }
    match (results.first(), answers.first()) {
        (Some(result), Some(answer)) if int(*result) == 0 => Ok(answer & 0xff != 0),
        (result, _) => {
            let answer = int(result.copied().unwrap_or_default());
            Err(failed(format!("mallctl answered {answer} for {CONTROL}")))
        }
    }
}

/// Processes whose profiler a killed heapattach has left switched on.
pub fn left_on() -> Vec<Process> {
    let all = note::pids(Kind::ProfActive).into_iter().filter_map(|pid| Process::open(pid).ok());
    all.filter(|process| {
        Note::orphan(process, Kind::ProfActive).is_some_and(|note| note.value != 0)
    })
    .collect()
}

/// Whether a session that is alive has it switched on, and switches it off again.
pub fn is_in_use(process: &Process) -> bool {
    Note::is_in_use(process, Kind::ProfActive)
}

/// Switches it off; whether there was something to undo.
///
/// # Errors
/// When it is still on.
pub fn undo_orphaned(
    target: &Target,
    image: &PayloadImage,
    most: Duration,
) -> Result<bool, String> {
    let Some(note) = Note::orphan(&target.process, Kind::ProfActive) else { return Ok(false) };
    if note.value == 0 {
        note.remove();
        return Ok(false);
    }
    let undone = switch_off(target, image, most, note, &mut AppliedReport::default());
    undone.map(|()| true).map_err(|(_, why)| why)
}
