//! Running the command under test as a user would.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{compile::profile_folder, deadline::poll, hang, report::Report};

/// A command that takes longer hangs. Beside two thousand busy threads on two processors it has
/// seconds to wait for each of its turns.
const HANG: Duration = Duration::from_secs(150);

/// How the functions are to be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// The command chooses.
    Auto,
    /// Relocation slots only.
    Slots,
    /// Function entries only.
    Entry,
}

impl Hooks {
    /// The value of `--hooks`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Slots => "slots",
            Self::Entry => "entry",
        }
    }
}

/// One run of the command, being put together.
#[derive(Debug)]
pub struct Heapattach {
    command: Command,
    limit: Duration,
    target: Option<i32>,
    stdout: Option<PathBuf>,
    terminal: Option<OwnedFd>,
}

/// The command, running.
#[derive(Debug)]
pub struct Running {
    child: Child,
    began: Instant,
    limit: Duration,
    target: Option<i32>,
    output: PathBuf,
    talk: PathBuf,
}

/// The command, ended.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its data.
    pub stdout: String,
    /// Its talk.
    pub stderr: String,
    /// From its start to its end.
    pub took: Duration,
}

/// The command to test: `HEAPATTACH_UNDER_TEST`, or the one built with these tests.
///
/// # Panics
/// If there is none.
pub fn binary() -> PathBuf {
    let named = std::env::var_os("HEAPATTACH_UNDER_TEST").map(PathBuf::from);
    let binary = named.unwrap_or_else(|| profile_folder().join("heapattach-under-test"));
    assert!(binary.is_file(), "{} is missing", binary.display());
    binary
}

impl Heapattach {
    /// The bare command.
    pub fn new<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Self {
        let mut command = Command::new(binary());
        command.args(args).stdin(Stdio::null()).env_remove("HEAPATTACH_FAULT");
        Self { command, limit: HANG, target: None, stdout: None, terminal: None }
    }

    /// `-p pid --duration <window> --hooks <hooks> --json`.
    pub fn attach(pid: i32, window: Duration, hooks: Hooks) -> Self {
        let duration = format!("{}ms", window.as_millis());
        let pid_text = pid.to_string();
        let args = ["-p", &pid_text, "--duration", &duration, "--hooks", hooks.name(), "--json"];
        let mut this = Self::new(args);
        this.target = Some(pid);
        this.limit += window;
        this
    }

    /// `detach -p pid --json`.
    pub fn detach(pid: i32) -> Self {
        let mut this = Self::new(["detach", "-p", &pid.to_string(), "--json"]);
        this.target = Some(pid);
        this
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.command.arg(arg.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets `HEAPATTACH_FAULT` (`fail:3`, `kill:7`, `count`, ...).
    #[must_use]
    pub fn fault(self, fault: &str) -> Self {
        self.env("HEAPATTACH_FAULT", fault)
    }

    /// How long it may take; beyond that it hangs.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it in this folder.
    #[must_use]
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// The process whose state to show should it hang.
    #[must_use]
    pub fn target(mut self, pid: i32) -> Self {
        self.target = Some(pid);
        self
    }

    /// Has it write its data to `path` instead of where [`Outcome::stdout`] reads it.
    #[must_use]
    pub fn stdout(mut self, path: impl Into<PathBuf>) -> Self {
        self.stdout = Some(path.into());
        self
    }

    /// Has it talk to a terminal instead of where [`Outcome::stderr`] reads it.
    #[must_use]
    pub fn terminal(mut self, terminal: OwnedFd) -> Self {
        self.terminal = Some(terminal);
        self.env("TERM", "xterm")
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(mut self) -> Running {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Relaxed);
        let name = format!("heapattach-run-{}-{serial}", std::process::id());
        let output = std::env::temp_dir().join(name);
        let talk = output.with_extension("talk");
        // Files, not pipes: a process that the command leaves running must not keep us waiting for the
        // end of a pipe.
        let stdout = self.stdout.as_ref().unwrap_or(&output);
        self.command.stdout(File::create(stdout).expect("a file to write to"));
        self.command.stderr(File::create(&talk).expect("a temporary file"));
        if let Some(terminal) = self.terminal {
            self.command.stderr(terminal);
        }
        let child = self.command.spawn().expect("the command under test runs");
        let (limit, target) = (self.limit, self.target);
        Running { child, began: Instant::now(), limit, target, output, talk }
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it does not end within its limit.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }
}

impl Running {
    /// Its pid.
    ///
    /// # Panics
    /// Never: pids are small.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a pid")
    }

    /// Sends it a signal. It has not been waited for, so the pid is still its own.
    ///
    /// # Panics
    /// If that is not allowed.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("a child of ours, not yet reaped");
    }

    /// What it, or the program it runs, has written to stdout so far.
    pub fn output(&self) -> String {
        read(&self.output)
    }

    /// What it has said so far.
    pub fn talk(&self) -> String {
        read(&self.talk)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end within its limit; the message tells what it and its target were doing.
    pub fn wait(mut self) -> Outcome {
        let status = poll(self.limit, || self.child.try_wait().expect("a child of ours"));
        let Some(status) = status else {
            let target = self.target.map(hang::describe).unwrap_or_default();
            let own = hang::describe(self.pid());
            panic!("heapattach hangs after {:?}\n{own}{target}{}", self.limit, self.talk());
        };
        let took = self.began.elapsed();
        Outcome { status, stdout: read(&self.output), stderr: read(&self.talk), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.output);
        let _ = fs::remove_file(&self.talk);
    }
}

fn read(path: &PathBuf) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Outcome {
    /// Its exit code; `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Panics, with all it said, unless its exit code is `code`.
    ///
    /// # Panics
    /// If the code is another.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{} with\n{}{}", self.status, self.stdout, self.stderr);
        self
    }

    /// The calls of the engine that `HEAPATTACH_FAULT=trace` tells of, by name; the first is number 1.
    pub fn calls(&self) -> Vec<String> {
        let calls = self.stderr.lines().filter_map(|line| {
            let (_, call) = line.strip_prefix("heapattach: faults: call ")?.split_once(" is ")?;
            Some(call.to_owned())
        });
        calls.collect()
    }

    /// The numbers of those with this name.
    pub fn calls_named(&self, name: &str) -> Vec<u64> {
        (1..).zip(self.calls()).filter(|(_, call)| call == name).map(|(number, _)| number).collect()
    }

    /// The report on its stdout.
    ///
    /// # Panics
    /// If there is none.
    pub fn report(&self) -> Report {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("no report ({error}); {} with\n{}{}", self.status, self.stdout, self.stderr)
        })
    }
}
