//! What `/proc` tells about the target: the files are opened here, the parsers below are pure.
//!
//! A [`Process`] is held by a descriptor of its `/proc` directory and a pidfd, so that a recycled
//! pid is never taken for the target.

pub mod auxv;
pub mod build_id;
pub mod file;
pub mod maps;
pub mod pidfd;
pub mod sections;
pub mod status;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
};

use auxv::Auxv;
use status::{Status, stat_field};

/// No file of `/proc` we read is honestly longer than this.
const PROC_FILE_LIMIT: u64 = 256 << 20;

/// A process of this machine, alive or just ended.
#[derive(Debug)]
pub struct Process {
    pid: i32,
    directory: OwnedFd,
    pidfd: Option<OwnedFd>,
    /// The thread whose files stand for the whole process: the leader's go empty when it exits
    /// before the others.
    voice: AtomicI32,
}

impl Process {
    /// Takes hold of the process.
    ///
    /// # Errors
    /// `ESRCH` if there is none with that number.
    pub fn open(pid: i32) -> Result<Self, Errno> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let directory =
            open(format!("/proc/{pid}").as_str(), flags, Mode::empty()).map_err(gone)?;
        let pidfd = pidfd::open(pid).ok();
        let process = Self { pid, directory, pidfd, voice: AtomicI32::new(pid) };
        process.find_voice();
        Ok(process)
    }

    /// Its number in our pid namespace.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable once the process has ended; `None` below Linux 5.3.
    pub fn pidfd(&self) -> Option<&OwnedFd> {
        self.pidfd.as_ref()
    }

    /// Chooses a living thread to read the process's files through.
    pub fn find_voice(&self) {
        let alive = |tid: &i32| self.thread_status(*tid).is_ok_and(|s| !s.is_zombie());
        // Thousands of threads take their time to be listed, and mostly the first one lives.
        let other = || self.threads().unwrap_or_default().into_iter().find(alive);
        if let Some(tid) = Some(self.pid).filter(alive).or_else(other) {
            self.voice.store(tid, Relaxed);
        }
    }

    /// Every thread the kernel lists just now.
    ///
    /// # Errors
    /// `ESRCH` once the process is gone.
    pub fn threads(&self) -> Result<Vec<i32>, Errno> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let task = openat(&self.directory, "task", flags, Mode::empty()).map_err(gone)?;
        let mut directory = nix::dir::Dir::from_fd(task)?;
        let names = directory.iter().filter_map(Result::ok);
        Ok(names.filter_map(|e| e.file_name().to_str().ok()?.parse().ok()).collect())
    }

    /// Reads one of the process's files, up to a limit no honest one reaches.
    ///
    /// # Errors
    /// `ESRCH` once the process is gone; `EFBIG` beyond the limit.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Errno> {
        self.read_path(&format!("task/{}/{name}", self.voice.load(Relaxed)))
    }

    /// The same for one thread.
    ///
    /// # Errors
    /// As [`Process::read`].
    pub fn read_thread(&self, tid: i32, name: &str) -> Result<Vec<u8>, Errno> {
        self.read_path(&format!("task/{tid}/{name}"))
    }

    /// The number of the system call in which a thread sleeps, if it does.
    pub fn call_of(&self, tid: i32) -> Option<i64> {
        let call = self.read_thread(tid, "syscall").ok()?;
        str::from_utf8(call.split(|&b| b == b' ').next()?).ok()?.parse().ok()
    }

    /// The same as [`Process::read`] for a file that only the process has, not its threads.
    ///
    /// # Errors
    /// As [`Process::read`].
    pub fn read_process(&self, name: &str) -> Result<Vec<u8>, Errno> {
        self.read_path(name)
    }

    fn read_path(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let fd = openat(&self.directory, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(gone)?;
        let mut bytes = Vec::new();
        File::from(fd).take(PROC_FILE_LIMIT).read_to_end(&mut bytes).map_err(errno_of)?;
        if bytes.len() as u64 == PROC_FILE_LIMIT { Err(Errno::EFBIG) } else { Ok(bytes) }
    }

    /// Opens the memory of the target; it stays the same memory after an exec, when it reads empty.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where ptrace would be refused too.
    pub fn open_memory(&self) -> Result<File, Errno> {
        let path = format!("task/{}/mem", self.voice.load(Relaxed));
        openat(&self.directory, path.as_str(), OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(gone)
    }

    /// Opens something below the process's directory, `root` or `fd/7` say.
    ///
    /// # Errors
    /// What openat(2) says.
    pub fn open_below(&self, name: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
        let path = format!("task/{}/{name}", self.voice.load(Relaxed));
        openat(&self.directory, path.as_str(), flags | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(gone)
    }

    /// Opens the exact file mapped at `range`, even if it was unlinked or replaced.
    ///
    /// # Errors
    /// `EPERM` without `CAP_CHECKPOINT_RESTORE`.
    pub fn open_mapped(&self, start: u64, end: u64) -> Result<OwnedFd, Errno> {
        let path = format!("map_files/{start:x}-{end:x}");
        openat(&self.directory, path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
    }

    /// Its open descriptors and what they lead to.
    pub fn descriptors(&self) -> Vec<(u64, OsString)> {
        let path = format!("/proc/{}/task/{}/fd", self.pid, self.voice.load(Relaxed));
        let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        let descriptor = |entry: std::fs::DirEntry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, std::fs::read_link(entry.path()).ok()?.into_os_string()))
        };
        entries.filter_map(descriptor).collect()
    }

    /// Its status now.
    ///
    /// # Errors
    /// `ESRCH` once the process is gone.
    pub fn status(&self) -> Result<Status, Errno> {
        self.read_path("status").map(|text| Status::parse(&text))
    }

    /// The status of one of its threads.
    ///
    /// # Errors
    /// `ESRCH` once the thread is gone.
    pub fn thread_status(&self, tid: i32) -> Result<Status, Errno> {
        self.read_thread(tid, "status").map(|text| Status::parse(&text))
    }

    /// The state letter of one thread, cheaper than the whole status.
    pub fn thread_state(&self, tid: i32) -> Option<char> {
        let stat = self.read_thread(tid, "stat").ok()?;
        stat_field(&stat, 3)?.chars().next()
    }

    /// The auxiliary vector.
    ///
    /// # Errors
    /// `EACCES` where ptrace would be refused too.
    pub fn auxv(&self) -> Result<Auxv, Errno> {
        self.read("auxv").map(|bytes| Auxv::parse(&bytes))
    }

    /// When it was started, in clock ticks since boot: with the pid, a name for ever.
    pub fn start_time(&self) -> Option<u64> {
        stat_field(&self.read_path("stat").ok()?, 22)?.parse().ok()
    }

    /// Where the heap that brk(2) makes begins, and grows from.
    pub fn heap_start(&self) -> Option<u64> {
        stat_field(&self.read_path("stat").ok()?, 47)?.parse().ok()
    }

    /// The command line, printable and bounded.
    pub fn command(&self) -> String {
        let bytes = self.read_path("cmdline").unwrap_or_default();
        let words = bytes.split(|&b| b == 0).filter(|w| !w.is_empty());
        let text: Vec<String> =
            words.map(|w| String::from_utf8_lossy(w).escape_debug().to_string()).collect();
        let name = || self.status().map(|s| s.name).unwrap_or_default();
        let line = if text.is_empty() { name() } else { text.join(" ") };
        line.chars().take(200).collect()
    }

    /// Whether it still runs (a zombie without living threads does not).
    pub fn is_alive(&self) -> bool {
        self.threads()
            .unwrap_or_default()
            .iter()
            .any(|&tid| self.thread_state(tid).is_some_and(|state| !matches!(state, 'Z' | 'X')))
    }
}

/// Whether the process `pid` that started at `start_time` still runs.
pub fn runs_still(pid: i32, start_time: u64) -> bool {
    Process::open(pid).is_ok_and(|p| p.start_time() == Some(start_time) && p.is_alive())
}

/// Every pid of this machine.
pub fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// `/proc` says `ENOENT` where the system calls say `ESRCH`.
fn gone(errno: Errno) -> Errno {
    if errno == Errno::ENOENT { Errno::ESRCH } else { errno }
}

/// The errno inside an I/O error.
pub(crate) fn errno_of(error: io::Error) -> Errno {
    gone(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}

/// `pidfd_getfd(2)`, and where that is missing or refused the same file through `/proc`.
///
/// # Errors
/// What the second way says.
pub fn take_descriptor(process: &Process, number: i32) -> Result<OwnedFd, Errno> {
    crate::fault::point("pidfd_getfd")?;
    let taken =
        process.pidfd().ok_or(Errno::ENOSYS).and_then(|pidfd| pidfd::take(pidfd.as_fd(), number));
    taken.or_else(|_| process.open_below(&format!("fd/{number}"), OFlag::O_RDWR))
}
