//! Sessions of a command that looks at them: each in a command of its own, that ends with this one whatever
//! ends it.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::Duration,
};

use heapattach_files::{
    folder,
    output_file::{self, Readers},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{choose_process::all, exit_status::Exit, output::complain};

/// Between two looks whether all have ended.
const PAUSE: Duration = Duration::from_millis(5);

/// How they are begun.
#[derive(Clone, Debug)]
pub struct Options {
    /// For which command.
    pub of: &'static str,
    /// Mean bytes between samples.
    pub every: u64,
    /// About how large a recording may become.
    pub max_size: u64,
    /// Where recordings are kept; without it they are removed in the end.
    pub output: Option<PathBuf>,
    /// Whether what they say goes to a file beside the recording, not to the terminal.
    pub has_log: bool,
    /// Whether command lines stay out of the recordings.
    pub redacts: bool,
}

/// Commands that write down what happens.
#[derive(Debug)]
pub struct Sessions {
    all: Vec<Session>,
    folder: PathBuf,
    options: Options,
}

/// One of them.
#[derive(Debug)]
pub struct Session {
    /// The process.
    pub pid: i32,
    /// What it is called.
    pub name: String,
    /// Where the session is written to.
    pub path: PathBuf,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Sessions {
    /// Begins them; what cannot be attached to is told by its own command.
    pub fn begin(pids: &[i32], options: Options) -> Result<Self, String> {
        let own = format!("heapattach-{}-{}", options.of, std::process::id());
        let folder = options.output.clone().unwrap_or_else(|| std::env::temp_dir().join(own));
        let made = match options.output {
            // A folder of the user's.
            Some(_) => folder::make(&folder, 0o777),
            // One that no other process can have made.
            None => DirBuilder::new().mode(0o700).create(&folder),
        };
        made.map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
        let mut sessions = Self { all: Vec::new(), folder, options };
        pids.iter().try_for_each(|pid| sessions.add(*pid))?;
        Ok(sessions)
    }

    /// Begins one more.
    pub fn add(&mut self, pid: i32) -> Result<(), String> {
        let name = all().find(|one| one.pid == pid).map(|one| one.short_name).unwrap_or_default();
        let path = self.folder.join(format!("{pid}.heapattach"));
        let child = self.start(pid, &path);
        let child = child.map_err(|error| format!("no session can be started: {error}"))?;
        self.all.push(Session { pid, name, path, child, ended: None });
        Ok(())
    }

    /// All of them, in the order in which they were begun.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &Session> {
        self.all.iter()
    }

    /// Where recordings are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that is removed in the end.
    pub fn private(&self) -> Option<&Path> {
        self.options.output.is_none().then_some(self.folder.as_path())
    }

    /// Where recordings stay, if they do.
    pub fn kept(&self) -> Option<&Path> {
        self.options.output.as_ref().map(|_| self.folder.as_path())
    }

    /// Whether there were some, and all have ended; each end is told once.
    pub fn are_over(&mut self) -> bool {
        for session in &mut self.all {
            if session.ended.is_none() && session.is_over() && !self.options.has_log {
                complain(&format!("the session of process {} has ended", session.pid));
            }
        }
        !self.all.is_empty() && self.all.iter().all(|session| session.ended.is_some())
    }

    /// Looks which have ended.
    pub fn look(&mut self) {
        self.all.iter_mut().for_each(|session| {
            session.is_over();
        });
    }

    /// Sends a signal to one that goes on.
    pub fn signal(&self, pid: i32, signal: Signal) {
        for session in self.all.iter().filter(|one| one.pid == pid && one.ended.is_none()) {
            let _ = kill(Pid::from_raw(session.child.id().cast_signed()), signal);
        }
    }

    /// Ends them, and waits until every process is as it was. Answers what went wrong with one, if anything.
    pub fn end(self) -> Option<Exit> {
        self.end_with(|| ())
    }

    /// The same; `last` is called when all have ended, while recordings are still there.
    pub fn end_with(mut self, last: impl FnOnce()) -> Option<Exit> {
        for session in self.all.iter().filter(|session| session.ended.is_none()) {
            let child = Pid::from_raw(session.child.id().cast_signed());
            let _ = kill(child, Signal::SIGINT);
        }
        while !self.all.is_empty() && !self.are_over() {
            sleep(PAUSE);
        }
        last();
        if self.options.output.is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
        self.all.iter().filter_map(|session| exit(session.ended?)).next()
    }

    fn start(&self, pid: i32, path: &Path) -> std::io::Result<Child> {
        let Options { every, max_size, has_log, redacts, .. } = &self.options;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["-p", &pid.to_string()]).arg("-o").arg(path);
        command.args(["--every", &every.to_string(), "--max-size", &max_size.to_string()]);
        command.args(["--ends-with", &std::process::id().to_string()]);
        if *redacts {
            command.arg("--redact");
        }
        match has_log {
            true => command.stderr(output_file::begin_anew(&log(path), Readers::Owner)?),
            false => command.arg("--quiet"),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    }
}

impl Session {
    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.ended
    }

    /// Where it says what there is to say.
    pub fn log(&self) -> PathBuf {
        log(&self.path)
    }

    fn is_over(&mut self) -> bool {
        if self.ended.is_none()
            && let Ok(Some(status)) = self.child.try_wait()
        {
            self.ended = Some(status);
        }
        self.ended.is_some()
    }
}

fn log(path: &Path) -> PathBuf {
    path.with_extension("log")
}

/// A session that was ended by us, or with its process, went well.
pub fn exit(status: ExitStatus) -> Option<Exit> {
    match status.code() {
        Some(0 | 5 | 130) => None,
        Some(3) => Some(Exit::Refused),
        Some(4) => Some(Exit::Unsupported),
        Some(7) | None => Some(Exit::Left),
        Some(_) => Some(Exit::Failed),
    }
}
