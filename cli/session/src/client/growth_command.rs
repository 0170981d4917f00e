//! The command that the user wants run when memory grows: by this process, which traces nothing, and
//! beside everything else.
//!
//! It has the rights that this process has, a group of its own, nothing to read, and standard error for
//! what it says: standard output is data. It is not waited for before its target is released.

use std::{
    ffi::{CString, OsString},
    fs::File,
    os::{fd::AsRawFd, unix::ffi::OsStringExt},
    thread,
    time::{Duration, Instant},
};

use heapattach_text::quantity::clock;
use nix::{
    errno::Errno,
    spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp},
    sys::{
        signal::{SigSet, Signal, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

use crate::client::message::Growing;

/// A command may take so long; then it is killed, with all that it started in its group.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// How often its end is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Why a command did not do what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// It could not be started.
    NotStarted(Errno),
    /// A word of it has a zero byte.
    ZeroByte,
    /// It ended with this status.
    Status(i32),
    /// A signal ended it.
    Signal(Signal),
    /// It took too long and was killed.
    Killed,
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted(errno) => write!(f, "it cannot be started: {}", errno.desc()),
            Self::ZeroByte => f.write_str("a word of it has a zero byte"),
            Self::Status(status) => write!(f, "it ended with status {status}"),
            Self::Signal(signal) => write!(f, "{signal} ended it"),
            Self::Killed => write!(f, "it was killed after {}", clock(PATIENCE)),
        }
    }
}

/// Runs a command to its end; `verdict` is what is said of the whole recording.
///
/// # Errors
/// What became of it instead.
pub fn run(words: &[String], growing: &Growing, verdict: &str) -> Result<(), CommandError> {
    let c_string =
        |text: OsString| CString::new(text.into_vec()).map_err(|_| CommandError::ZeroByte);
    let words = words.iter().map(|word| c_string(word.into())).collect::<Result<Vec<_>, _>>()?;
    let entries = environment(growing, verdict);
    let entries = entries.into_iter().map(c_string).collect::<Result<Vec<_>, _>>()?;
    let program = words.first().ok_or(CommandError::NotStarted(Errno::ENOENT))?;
    let child = spawn(program, &words, &entries).map_err(CommandError::NotStarted)?;
    wait(child, PATIENCE)
}

fn spawn(program: &CString, words: &[CString], entries: &[CString]) -> Result<Pid, Errno> {
    let mut actions = PosixSpawnFileActions::init()?;
    let nothing = File::open("/dev/null").map_err(|error| error.raw_os_error().unwrap_or(0));
    let nothing = nothing.map_err(Errno::from_raw)?;
    actions.add_dup2(nothing.as_raw_fd(), 0)?;
    actions.add_dup2(2, 1)?;
    let mut how = PosixSpawnAttr::init()?;
    // Signals that are held back here, for a session to hear of them, are not to be held back there.
    how.set_sigmask(&SigSet::empty())?;
    how.set_sigdefault(&[Signal::SIGPIPE].into_iter().collect())?;
    // Ctrl-C is meant for the session, and what it started is to end with it.
    how.set_pgroup(Pid::from_raw(0))?;
    how.set_flags(
        PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK
            | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF
            | PosixSpawnFlags::POSIX_SPAWN_SETPGROUP,
    )?;
    posix_spawnp(program, &actions, &how, words, entries)
}

fn wait(child: Pid, patience: Duration) -> Result<(), CommandError> {
    let deadline = Instant::now() + patience;
    loop {
        match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::Exited(_, status)) => return Err(CommandError::Status(status)),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Err(CommandError::Signal(signal)),
            Ok(_) => {}
            Err(errno) => return Err(CommandError::NotStarted(errno)),
        }
        if Instant::now() >= deadline {
            let _ = killpg(child, Signal::SIGKILL);
            let _ = waitpid(child, None);
            return Err(CommandError::Killed);
        }
        thread::sleep(LOOK);
    }
}

/// Ours, with what is known of the growth.
fn environment(growing: &Growing, verdict: &str) -> Vec<OsString> {
    let Growing { pid, trigger, recording, .. } = growing;
    let recording = recording.as_ref().map(|path| path.clone().into_os_string());
    let own = [
        ("HEAPATTACH_PID", pid.to_string().into()),
        ("HEAPATTACH_RECORDING", recording.unwrap_or_default()),
        ("HEAPATTACH_GROWTH", trigger.to_string().into()),
        ("HEAPATTACH_VERDICT", verdict.into()),
    ];
    let others = std::env::vars_os().filter(|(name, _)| own.iter().all(|(own, _)| name != own));
    let own = own.iter().map(|(name, value)| (OsString::from(name), value.clone()));
    let entry = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        name
    };
    others.chain(own).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::Mark;
    use heapattach_report::Trigger;
    use heapattach_test_folder::Folder;

    fn growing() -> Growing {
        Growing {
            pid: 4711,
            trigger: Trigger::Rss { at_ms: 1, bytes: 2048, limit: 1024 },
            mark: Mark::default(),
            recording: Some("/x/a b.heapattach".into()),
        }
    }

    fn words(text: &[&str]) -> Vec<String> {
        text.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_command_knows_what_grows_and_can_read_nothing() {
        let folder = Folder::new("growth-command");
        std::fs::create_dir_all(&folder.0).unwrap();
        let file = folder.0.join("told");
        let script = "read x || exec env > \"$0\"";
        let line = words(&["sh", "-c", script, file.to_str().unwrap()]);
        assert_eq!(run(&line, &growing(), "Grows by much."), Ok(()));
        let told = std::fs::read_to_string(&file).unwrap();
        for entry in [
            "HEAPATTACH_PID=4711",
            "HEAPATTACH_RECORDING=/x/a b.heapattach",
            "HEAPATTACH_GROWTH=resident memory is 2.0 KiB, the limit 1.0 KiB",
            "HEAPATTACH_VERDICT=Grows by much.",
        ] {
            assert!(told.lines().any(|line| line == entry), "{entry}\n{told}");
        }
    }

    #[test]
    fn its_failure_is_told() {
        let run = |line: &[&str]| run(&words(line), &growing(), "");
        assert_eq!(run(&["sh", "-c", "exit 3"]), Err(CommandError::Status(3)));
        assert_eq!(run(&["sh", "-c", "kill $$"]), Err(CommandError::Signal(Signal::SIGTERM)));
        let missing = run(&["/no/such/command"]);
        assert_eq!(missing, Err(CommandError::NotStarted(Errno::ENOENT)));
        assert_eq!(run(&["a\0b"]), Err(CommandError::ZeroByte));
    }

    #[test]
    fn one_that_does_not_end_is_killed_with_what_it_started() {
        let program = CString::new("sh").unwrap();
        let line = ["sh", "-c", "sleep 1000 & wait"].map(|word| CString::new(word).unwrap());
        let child = spawn(&program, &line, &[]).unwrap();
        assert_eq!(wait(child, Duration::from_millis(50)), Err(CommandError::Killed));
        // Its group is empty once its last process is reaped, by its parent or by init.
        while killpg(child, None) == Ok(()) {
            thread::sleep(LOOK);
        }
    }
}
