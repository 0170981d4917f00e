//! What `/proc` tells about the target: the files are opened here, the parsers below are pure.
//!
//! A [`Process`] is held by a descriptor of its `/proc` directory and a pidfd, so that a recycled
//! pid is never taken for the target.
//!
//! # What the target names, and why it is safe to follow
//!
//! The target may belong to an ordinary user, and we to root. Nothing that it names is opened, written
//! or mapped with rights that it lacks:
//!
//! | what | how | why it is safe |
//! |---|---|---|
//! | a descriptor, of the file in memory that it was made to create | `pidfd_getfd`: the open file itself, never a path; [`MemoryFile`] | we can do with it what its opener may, and only if it is an unlinked, empty, unsealed file of memfd_create; its size is sealed, and asked for again, before it is mapped |
//! | `map_files`, `exe` | [`regular::open_held`] | held by O_PATH, which opens nothing; must be a regular file of a file system that stores; opened through what is held, for reading, without waiting for a lease |
//! | paths of modules, debug files, perf maps | [`file::open_in_root`], `Root::open` | the same, below the target's root (RESOLVE_IN_ROOT, no magic links); device and inode, or the build id, must be those of the mapping |
//! | what is in these files | parsers with budgets | every offset and count is checked; bytes read, unpacked and kept are bounded |
//! | debug data of variables and types (`heap`, Go) | the symbols' `entries::Sections` | one file at a time; all of them take no more memory, and no more work, than one allowance has (`files::elf::Allowance`); depths, entries and types are counted |
//! | the word that sets Go's rate, and the note of it outside of the target | the session's `golang::rate::note` | the note is in a folder of our own, held by a descriptor, closed to others, and asked each time whether it is; it names pid, start time and first stack; the word is undone only if it is still what was written |
//! | the agent's state, by pid and start time | `files::folder::is_ours`, then new files only | the folder is the agent's own and no other user can write to it, or it is refused; a process of another start time is another process |
//! | `TMPDIR`, for `--loader dlopen` without `/proc` | a new file in the folder, which must be one that the target's user can write | a name of ours, O_EXCL, no links; owned by the target's user from its first byte; nothing that was there is opened |
//! | the path of such a file, found in the target after a crash | unlinked only if it bears our name with the target's pid | no other name can be given |
//! | `mem` | opened once, before the first stop; kept | stays that memory after an exec, when it reads empty |
//! | threads | seized by number; what the list of the stopped process does not have is let go | a number may have been given to another process between list and request |
//! | the home's header and journal | the injector's `Home::open`, `session_lock::owner` | counts are at most what we ever write; an owner is believed only if it holds the session's lock; words are written only into the target itself |
//! | the loader's lists | `linker` | bounded, no module twice; 4096 functions in all |
//! | the shared region | `shared`, `ring` | atomic words, loaded once and checked; torn or absurd records are counted as lost |
//! | its processes' names, command lines, function names | printed with control characters escaped | no terminal is steered |
//!
//! [`MemoryFile`]: crate::memory_file::MemoryFile

pub mod auxv;
pub mod build_id;
pub mod file;
pub mod maps;
pub mod pidfd;
pub mod regular;
pub mod sections;
pub mod smaps;
pub mod status;

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read},
    os::fd::OwnedFd,
    sync::atomic::{AtomicI32, Ordering::Relaxed},
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, open, openat},
    sys::stat::Mode,
    time::{ClockId, clock_gettime},
    unistd::{SysconfVar, sysconf},
};

use auxv::Auxv;
use status::{Status, stat_field};

/// No file of `/proc` we read is honestly longer than this.
const PROC_FILE_LIMIT: u64 = 256 << 20;
/// Most files are shorter, and longer ones are read in pieces of that size.
const PROC_FILE_ROOM: usize = 16 << 10;

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
        // Both are of the same process if the first is still there after the second was made.
        process.read_piece("stat")?;
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

    /// The thread that is chosen.
    pub fn voice(&self) -> i32 {
        self.voice.load(Relaxed)
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

    /// Whether these are all its threads, while all of them stand: much cheaper than to list them. False,
    /// too, where we may send it no signals. None is named twice.
    pub fn has_only(&self, tids: &[i32]) -> bool {
        let count = self.status().map(|status| status.threads);
        count == Ok(tids.len()) && tids.iter().all(|&tid| pidfd::has_thread(self.pid, tid))
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
        // The kernel makes up as much as there is room for: without any, one line needs ten reads.
        let mut bytes = Vec::with_capacity(PROC_FILE_ROOM);
        File::from(fd).take(PROC_FILE_LIMIT).read_to_end(&mut bytes).map_err(errno_of)?;
        if bytes.len() as u64 == PROC_FILE_LIMIT { Err(Errno::EFBIG) } else { Ok(bytes) }
    }

    /// The same for a file that the kernel makes up as one piece, which one read has then: of other
    /// files the end is known only from a second one.
    fn read_piece(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let fd = openat(&self.directory, path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map_err(gone)?;
        let mut bytes = vec![0; PROC_FILE_ROOM];
        let read = loop {
            match nix::unistd::read(&fd, &mut bytes) {
                Err(Errno::EINTR) => {}
                read => break read.map_err(gone)?,
            }
        };
        if read == bytes.len() {
            return self.read_path(path);
        }
        bytes.truncate(read);
        Ok(bytes)
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

    /// The top of the file tree that the process sees. To be walked from, not to be read.
    ///
    /// # Errors
    /// What openat(2) says.
    pub fn open_root(&self) -> Result<OwnedFd, Errno> {
        self.hold("root", OFlag::O_DIRECTORY)
    }

    /// Opens the program that the process runs.
    ///
    /// # Errors
    /// As [`regular::open_held`].
    pub fn open_program(&self) -> Result<File, Errno> {
        regular::open_held(self.hold("exe", OFlag::empty())?)
    }

    /// Opens what tells which pages of its memory are there.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where ptrace would be refused too.
    pub fn open_pagemap(&self) -> Result<File, Errno> {
        let path = format!("task/{}/pagemap", self.voice.load(Relaxed));
        openat(&self.directory, path.as_str(), OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(gone)
    }

    /// Opens the exact file mapped at `range`, even if it was unlinked or replaced.
    ///
    /// # Errors
    /// `EPERM` without `CAP_CHECKPOINT_RESTORE`; else as [`regular::open_held`].
    pub fn open_mapped(&self, start: u64, end: u64) -> Result<File, Errno> {
        let path = format!("map_files/{start:x}-{end:x}");
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        regular::open_held(openat(&self.directory, path.as_str(), flags, Mode::empty())?)
    }

    /// Opens a file that only the process has, not its threads, to ask for locks on it or to make one.
    ///
    /// # Errors
    /// `ESRCH` once the process is gone.
    pub fn open_for_locks(&self, name: &str) -> Result<File, Errno> {
        openat(&self.directory, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(gone)
    }

    /// Takes hold of what a link of the process's leads to, without opening it: that may be a device.
    fn hold(&self, name: &str, flags: OFlag) -> Result<OwnedFd, Errno> {
        let path = format!("task/{}/{name}", self.voice.load(Relaxed));
        let flags = flags | OFlag::O_PATH | OFlag::O_CLOEXEC;
        openat(&self.directory, path.as_str(), flags, Mode::empty()).map_err(gone)
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
        self.read_piece("status").map(|text| Status::parse(&text))
    }

    /// The status of one of its threads.
    ///
    /// # Errors
    /// `ESRCH` once the thread is gone.
    pub fn thread_status(&self, tid: i32) -> Result<Status, Errno> {
        self.read_piece(&format!("task/{tid}/status")).map(|text| Status::parse(&text))
    }

    /// The state letter of one thread, cheaper than the whole status.
    pub fn thread_state(&self, tid: i32) -> Option<char> {
        let stat = self.read_piece(&format!("task/{tid}/stat")).ok()?;
        stat_field(&stat, 3)?.chars().next()
    }

    /// The scheduling policy of one thread, as sched_setscheduler(2) numbers it.
    pub fn policy_of(&self, tid: i32) -> Option<u32> {
        stat_field(&self.read_piece(&format!("task/{tid}/stat")).ok()?, 41)?.parse().ok()
    }

    /// Whether it was forked and runs the program of its parent, without an exec since; `None` once it is gone.
    pub fn is_forked(&self) -> Option<bool> {
        const FORKED_NO_EXEC: u64 = 0x40;
        let flags: u64 = stat_field(&self.read_piece("stat").ok()?, 9)?.parse().ok()?;
        Some(flags & FORKED_NO_EXEC != 0)
    }

    /// The auxiliary vector, as the kernel tells it; see [`told_loader`](crate::told_loader).
    ///
    /// # Errors
    /// `EACCES` where ptrace would be refused too.
    pub fn auxv(&self) -> Result<Auxv, Errno> {
        self.read("auxv").map(|bytes| Auxv::parse(&bytes))
    }

    /// When it was started, in clock ticks since boot: with the pid, a name for ever.
    pub fn start_time(&self) -> Option<u64> {
        stat_field(&self.read_piece("stat").ok()?, 22)?.parse().ok()
    }

    /// Where the stack of its first thread begins, which the kernel chooses anew for each program that it becomes.
    pub fn stack_start(&self) -> Option<u64> {
        let start = stat_field(&self.read_piece("stat").ok()?, 28)?.parse().ok()?;
        // 1 where we may not know.
        (start > 1).then_some(start)
    }

    /// How long it has been running.
    pub fn running_for(&self) -> Option<Duration> {
        let ticks = self.start_time()?;
        let per_second = sysconf(SysconfVar::CLK_TCK).ok()??;
        let started = ticks.checked_mul(1000)? / u64::try_from(per_second).ok()?.max(1);
        let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
        now.checked_sub(Duration::from_millis(started))
    }

    /// Where the heap that brk(2) makes begins, and grows from.
    pub fn heap_start(&self) -> Option<u64> {
        stat_field(&self.read_path("stat").ok()?, 47)?.parse().ok()
    }

    /// The command line, printable and bounded; the name where there is none.
    pub fn command(&self) -> String {
        self.title().unwrap_or_else(|| {
            let name = self.status().map(|status| status.name).unwrap_or_default();
            name.chars().take(200).collect()
        })
    }

    /// The command line as the process shows it now, printable and bounded; none at its end.
    pub fn title(&self) -> Option<String> {
        let bytes = self.read_path("cmdline").unwrap_or_default();
        let words = bytes.split(|&b| b == 0).filter(|w| !w.is_empty());
        let text: Vec<String> =
            words.map(|w| String::from_utf8_lossy(w).escape_debug().to_string()).collect();
        let line: String = text.join(" ").chars().take(200).collect();
        let line = line.trim_end();
        (!line.is_empty()).then(|| line.to_owned())
    }

    /// Whether it still runs (a zombie without living threads does not).
    pub fn is_alive(&self) -> bool {
        self.threads()
            .unwrap_or_default()
            .iter()
            .any(|&tid| self.thread_state(tid).is_some_and(|state| !matches!(state, 'Z' | 'X')))
    }
}

/// Every pid of this machine.
pub fn all_pids() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect()
}

/// When the process that has this number now was started, as [`Process::start_time`]: for questions about
/// all processes of the machine, and wants few of them.
pub fn start_time_of(pid: i32) -> Option<u64> {
    let mut line = [0; 4096];
    let length = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    stat_field(line.get(..length)?, 22)?.parse().ok()
}

/// `/proc` says `ENOENT` where the system calls say `ESRCH`.
fn gone(errno: Errno) -> Errno {
    if errno == Errno::ENOENT { Errno::ESRCH } else { errno }
}

/// The errno inside an I/O error.
pub fn errno_of(error: io::Error) -> Errno {
    gone(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often this thread has called read(2).
    fn reads() -> u64 {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("syscr: "));
        line.unwrap().parse().unwrap()
    }

    #[test]
    fn a_file_of_proc_takes_few_reads() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        for name in ["stat", "status", "auxv"] {
            let before = reads();
            let alone = reads() - before;
            let before = reads();
            let bytes = process.read(name).unwrap();
            let took = reads() - before - alone;
            assert!(!bytes.is_empty() && took <= 3, "{name}: {took}");
        }
    }

    #[test]
    fn threads_are_all_or_not_all_that_a_process_has() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id().cast_signed();
        let process = Process::open(pid).unwrap();
        let (own, others) = (process.has_only(&[pid]), [vec![], vec![pid, 1], vec![1]]);
        let others = others.map(|tids| process.has_only(&tids));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((own, others), (true, [false; 3]));
        assert!(!process.has_only(&[pid]), "it is gone");
    }

    #[test]
    fn when_a_process_was_started_is_told_without_opening_it() {
        let pid = std::process::id().cast_signed();
        assert_eq!(start_time_of(pid), Process::open(pid).unwrap().start_time());
        assert!(start_time_of(pid).is_some());
        assert_eq!(start_time_of(-1), None);
    }
}
