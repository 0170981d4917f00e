//! A note, outside of the target, of what a session changed in it: made before the change, gone after the
//! undo. A session holds the lock of its note; one without a session is what a killed heapattach left.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use heapattach_process::{fault, proc::Process};
use nix::{
    dir::Dir,
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag, open, openat},
    sys::stat::{FileStat, Mode, SFlag, fstat, mkdirat},
    unistd::{UnlinkatFlags, geteuid, unlinkat},
};

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `runtime.MemProfileRate` of Go.
    GoRate,
    /// `prof.active` of jemalloc.
    ProfActive,
}

impl Kind {
    /// How the name of a note begins; a pid follows.
    fn name(self) -> &'static str {
        match self {
            Self::GoRate => "go-rate-",
            Self::ProfActive => "prof-active-",
        }
    }
}

/// More notes than these are not looked at.
const MOST: usize = 10_000;
/// No note is longer.
const LIMIT: u64 = 256;
const FOLDER: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC).union(OFlag::O_NOFOLLOW);

/// Which program of which process: an exec makes it another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whose {
    pid: i32,
    started: u64,
    /// Where its first stack begins, which the kernel chooses anew for each program.
    stack: u64,
}

impl Whose {
    /// Of a process; `None` if it is gone, or may not be looked at.
    pub fn of(process: &Process) -> Option<Self> {
        let (started, stack) = (process.start_time()?, process.stack_start()?);
        Some(Self { pid: process.pid(), started, stack })
    }

    fn name(&self, kind: Kind) -> String {
        format!("{}{}-{}-{:x}", kind.name(), self.pid, self.started, self.stack)
    }
}

/// A note, and the lock of it.
#[derive(Debug)]
pub struct Note {
    folder: OwnedFd,
    name: String,
    file: Flock<File>,
    /// Where the word lies, if it is one.
    pub at: u64,
    /// What was written there, or set.
    pub value: u64,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The folder is not to be had.
    #[error("a note of the change cannot be kept in {}: {}", .0.display(), .1.desc())]
    Folder(PathBuf, Errno),
    /// Another session has it.
    #[error("another heapattach has switched the profile on")]
    Busy,
    /// The process is gone, or hides.
    #[error("when the process was started cannot be read")]
    Gone,
}

impl Note {
    /// Notes what will be written, before it is.
    pub fn make(process: &Process, kind: Kind, at: u64, value: u64) -> Result<Self, NoteError> {
        let whose = Whose::of(process).ok_or(NoteError::Gone)?;
        let path = place();
        let failed = |errno| NoteError::Folder(path.clone(), errno);
        let folder = folder(&path, true).map_err(failed)?;
        let name = whose.name(kind);
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = match openat(&folder, name.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(file) => File::from(file),
            Err(Errno::EEXIST) => return Err(NoteError::Busy),
            Err(errno) => return Err(failed(errno)),
        };
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| failed(errno))?;
        // A look for what was left may have taken it for that before it was locked.
        if fstat(&*file).map_err(failed)?.st_nlink == 0 {
            return Err(NoteError::Busy);
        }
        let mut note = Self { folder, name, file, at, value };
        match note.write() {
            Ok(()) => Ok(note),
            Err(errno) => {
                note.remove();
                Err(failed(errno))
            }
        }
    }

    /// Notes another value, before that is written.
    pub fn change(&mut self, value: u64) -> Result<(), NoteError> {
        self.value = value;
        self.write().map_err(|errno| NoteError::Folder(place(), errno))
    }

    fn write(&mut self) -> Result<(), Errno> {
        fault::point("note")?;
        let text = format!("{} {}\n", self.at, self.value);
        let file = &mut *self.file;
        file.set_len(0)
            .and_then(|()| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(text.as_bytes()))
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))
    }

    /// Whether a session that is alive has one of this process.
    pub fn is_in_use(process: &Process, kind: Kind) -> bool {
        let Some(file) = Self::open(process, kind).map(|(_, _, file)| file) else { return false };
        matches!(Flock::lock(file, FlockArg::LockSharedNonblock), Err((_, Errno::EWOULDBLOCK)))
    }

    /// The one of this process, unless that is not ours.
    fn open(process: &Process, kind: Kind) -> Option<(OwnedFd, String, File)> {
        let folder = folder(&place(), false).ok()?;
        let name = Whose::of(process)?.name(kind);
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = File::from(openat(&folder, name.as_str(), flags, Mode::empty()).ok()?);
        is_ours(&fstat(&file).ok()?, SFlag::S_IFREG).ok()?;
        Some((folder, name, file))
    }

    /// What a killed heapattach left of this process; one that is alive keeps its own.
    pub fn orphan(process: &Process, kind: Kind) -> Option<Self> {
        let (folder, name, file) = Self::open(process, kind)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()?;
        let mut text = String::new();
        Read::by_ref(&mut *file).take(LIMIT).read_to_string(&mut text).ok()?;
        // One that was cut off in the middle is of a word that was not written yet.
        let words = text.strip_suffix('\n').and_then(|line| line.split_once(' '));
        let numbers = words.and_then(|(at, value)| Some((at.parse().ok()?, value.parse().ok()?)));
        let (at, value) = numbers.unwrap_or_default();
        Some(Self { folder, name, file, at, value })
    }

    /// It is not needed any more.
    pub fn remove(self) {
        let _ = unlinkat(&self.folder, self.name.as_str(), UnlinkatFlags::NoRemoveDir);
        drop(self.file);
    }
}

/// The processes that there are notes of.
pub fn pids(kind: Kind) -> Vec<i32> {
    let Ok(mut folder) = folder(&place(), false).and_then(Dir::from_fd) else { return Vec::new() };
    let names = folder.iter().take(MOST).flatten();
    let pid = |name: &str| name.strip_prefix(kind.name())?.split('-').next()?.parse().ok();
    names.filter_map(|entry| pid(entry.file_name().to_str().ok()?)).collect()
}

/// Where notes are: a folder that lives no longer than processes do. It is the same whatever the environment says,
/// since `detach` may have another one.
fn place() -> PathBuf {
    let own = PathBuf::from(format!("/run/user/{}", geteuid()));
    match own.is_dir() {
        _ if geteuid().is_root() => PathBuf::from("/run/heapattach"),
        true => own.join("heapattach"),
        false => PathBuf::from(format!("/tmp/heapattach-{}", geteuid())),
    }
}

/// Opens it, and makes it if it is to be there; it must be ours and closed to others.
fn folder(path: &Path, make: bool) -> Result<OwnedFd, Errno> {
    let (Some(base), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL);
    };
    let base = open(base, FOLDER, Mode::empty())?;
    if make {
        match mkdirat(base.as_fd(), name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    let folder = openat(&base, name, FOLDER, Mode::empty())?;
    is_ours(&fstat(&folder)?, SFlag::S_IFDIR)?;
    Ok(folder)
}

fn is_ours(status: &FileStat, kind: SFlag) -> Result<(), Errno> {
    let mode = Mode::from_bits_truncate(status.st_mode);
    let is_kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == kind;
    let is_closed = !mode.intersects(Mode::S_IRWXG | Mode::S_IRWXO);
    match is_kind && is_closed && status.st_uid == geteuid().as_raw() {
        true => Ok(()),
        false => Err(Errno::EPERM),
    }
}
