//! How a program is started under a tool: what is put before it, what is put into its environment,
//! and what else must live as long.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use nix::{
    sys::{
        signal::{Signal, killpg},
        stat::Mode,
    },
    unistd::{Pid, mkfifo},
};

use crate::{deadline::poll, fixture::Launch};

/// What a program is started with; nothing, for the plain one.
#[derive(Debug, Default)]
pub(super) struct Dress {
    /// Programs that run it.
    pub(super) prefix: Vec<OsString>,
    pub(super) environment: Vec<(&'static str, OsString)>,
    /// What a Python is told before its script.
    pub(super) python: Vec<OsString>,
    reader: Option<Reader>,
    folder: Option<Folder>,
}

impl Dress {
    pub(super) fn preload(library: &Path) -> Self {
        let environment = vec![("LD_PRELOAD", library.into())];
        Self { environment, ..Self::default() }
    }

    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// A folder for what the tool writes, gone with the dress.
    pub(super) fn folder(&mut self) -> Result<PathBuf, String> {
        let folder = self.folder.take().map_or_else(|| Folder::new("dress"), Ok)?;
        Ok(self.folder.insert(folder).path.clone())
    }

    /// A pipe that `reader`, a command line for sh, reads from: `$1`.
    pub(super) fn pipe_to(&mut self, reader: &str) -> Result<PathBuf, String> {
        let pipe = self.folder()?.join("pipe");
        mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|error| error.to_string())?;
        self.reader = Some(Reader::start(reader, &pipe)?);
        Ok(pipe)
    }

    /// Waits until who reads from the pipe has come to its end; then what it wrote is whole.
    pub(super) fn wait_for_reader(&mut self, limit: Duration) -> Result<(), String> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let end = poll(limit, || reader.0.try_wait().unwrap_or(None));
        end.map(|_| ()).ok_or_else(|| "what reads the pipe does not end".to_owned())
    }

    /// A command that runs `program` so.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut words = self.prefix.iter().cloned().chain([program.into()]);
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A fixture that is started so.
    pub(super) fn launch(&self, program: &Path) -> Launch {
        let mut words = self.prefix.iter().cloned().chain([program.into()]);
        let launch = Launch::program(Path::new(&words.next().unwrap_or_default()));
        let launch = words.fold(launch, Launch::arg);
        self.environment.iter().fold(launch, |launch, (name, value)| launch.env(name, value))
    }
}

/// A folder among the temporary files that goes with its value.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
}

impl Folder {
    pub(super) fn new(what: &str) -> Result<Self, String> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Relaxed);
        let name = format!("heapattach-peers-{what}-{}-{serial}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// A process that reads what a tool writes.
#[derive(Debug)]
struct Reader(Child);

impl Reader {
    fn start(line: &str, pipe: &Path) -> Result<Self, String> {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh"]).arg(pipe).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        command.spawn().map(Self).map_err(|error| format!("sh: {error}"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // A line for sh may be several processes.
        let _ = killpg(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGKILL);
        let _ = self.0.wait();
    }
}
