//! A started server: its process, its directory and its end.

use std::{
    fs, io,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// How long a server may take to answer for the first time, and to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a server did not come up.
#[derive(Debug)]
pub enum StartError {
    /// The program is not installed; how to get it.
    Missing(&'static str),
    /// It is, but did not come to answer.
    Failed(String),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(cure) => write!(f, "missing: {cure}"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A running server. Dropped, it is ended and its directory removed.
#[derive(Debug)]
pub struct Server {
    child: Child,
    directory: PathBuf,
}

impl Server {
    /// A fresh directory for a server of that name.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn directory(name: &str) -> io::Result<PathBuf> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let unique = format!("heapattach-{name}-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(unique);
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Starts `command` in `directory` and waits until `answers`.
    ///
    /// # Errors
    /// If it ends at once or does not answer in time; what it printed is in the error.
    pub fn start(
        mut command: Command,
        directory: PathBuf,
        answers: impl Fn() -> bool,
    ) -> Result<Self, StartError> {
        let log = directory.join("output");
        let output = fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.current_dir(&directory).spawn()?;
        let mut server = Self { child, directory };
        let deadline = Instant::now() + PATIENCE;
        while !answers() {
            let ended = server.child.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(StartError::Failed(format!("{command:?}: {ended:?}: {said}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// The process that was started.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The processes it forked.
    #[must_use]
    pub fn children(&self) -> Vec<i32> {
        children(self.pid())
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Politely first: a master takes its workers with it.
        let workers = self.children();
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        let deadline = Instant::now() + PATIENCE;
        while self.is_alive() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(2));
        }
        if self.is_alive() {
            for worker in workers {
                let _ = kill(Pid::from_raw(worker), Signal::SIGKILL);
            }
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Whether a server listens on that socket.
#[must_use]
pub fn listens(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// The processes that process `pid` forked from its first thread and that live.
#[must_use]
pub fn children(pid: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
