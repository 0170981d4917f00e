//! The payload as a file that the target's own loader can open, and as the module it becomes.

mod errand_block;

pub(crate) use errand_block::{Block, Order};

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Write,
    ops::Range,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
    sys::{
        stat::{FileStat, Mode, fstat},
        statfs::{PROC_SUPER_MAGIC, fstatfs},
        statvfs::{FsFlags, fstatvfs},
    },
    unistd::{Uid, UnlinkatFlags, fchown, unlinkat},
};

use crate::installation::remote_call::{Carrier, CarrierError};
use heapattach_process::{
    addr::{Bias, ImageAddr, RemoteAddr},
    linker::Rendezvous,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    memory_file::{MemoryFile, TakeError},
    proc::{self, Process, maps::Mapping},
};

/// What the file is called. Mappings of the target bear this name, by which we know it again.
const NAME: &str = "heapattach-payload";

/// Where a file may go if no folder is named in the target's environment.
const FOLDERS: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// No folder will do.
    #[error(
        "the target sees no /proc, and none of its temporary folders ({}) takes a file that may \
         be executed",
        tried.join("; ")
    )]
    NoFolder {
        /// Each, and why not.
        tried: Vec<String>,
    },
    /// A call in the target failed.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// It cannot be written.
    #[error("the payload's file in the target could not be written")]
    Write(#[source] Errno),
    /// It is not ours to write.
    #[error("the payload's file in the target could not be taken over")]
    Take(#[from] TakeError),
}

/// A file for the loader to open.
#[derive(Debug)]
pub enum ObjectFile {
    /// In memory only.
    Memory {
        /// The number of its descriptor in the target.
        number: i32,
        /// The target's own number, as it sees it.
        pid: i32,
    },
    /// In a folder of the target's.
    Named(NamedFile),
}

impl ObjectFile {
    /// The path by which the target opens it.
    pub fn path(&self) -> Vec<u8> {
        match self {
            // Not as programs spell it that load memory files themselves: the number may be theirs
            // next, and the loader goes by the spelling first. And leading nowhere in any other
            // process: a debugger opens what the loader lists, and would wait for ever for a pipe.
            Self::Memory { number, pid } => {
                format!("/proc/self/task/{pid}/fd/{number}").into_bytes()
            }
            Self::Named(file) => file.path.as_os_str().as_bytes().to_vec(),
        }
    }

    /// The descriptor to be closed in the target.
    pub fn descriptor(&self) -> Option<i32> {
        match self {
            Self::Memory { number, .. } => Some(*number),
            Self::Named(_) => None,
        }
    }
}

/// A file with a name, which goes with this.
#[derive(Debug)]
pub struct NamedFile {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Drop for NamedFile {
    fn drop(&mut self) {
        // The mapping keeps the contents.
        let _ = unlinkat(&self.folder, self.name.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// Whether the target sees a `/proc`.
pub fn sees_proc(process: &Process) -> bool {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
    let folder = folder(process, Path::new("/proc"), flags);
    folder.and_then(|fd| fstatfs(&fd)).is_ok_and(|fs| fs.filesystem_type() == PROC_SUPER_MAGIC)
}

/// A file in memory, made by the target itself, as its path is one of its own descriptors.
///
/// # Errors
/// When the target may not make one, or it cannot be written.
pub fn in_memory(
    carrier: &mut Carrier<'_, '_>,
    process: &Process,
    block: &Block<'_>,
    bytes: &[u8],
) -> Result<ObjectFile, FileError> {
    const MFD_NOEXEC_SEAL: u64 = 8;
    block.set_path(NAME.as_bytes()).map_err(FileError::Write)?;
    let (name, flags) = (block.path().get(), u64::from(libc::MFD_CLOEXEC));
    let mut create =
        |flags| carrier.call("memfd_create", libc::SYS_memfd_create, [name, flags, 0, 0, 0, 0]);
    // The seal is on running it as a program, not on mapping it. Old kernels do not know it.
    let number = match create(flags | MFD_NOEXEC_SEAL) {
        Err(CarrierError::Refused { source: Errno::EINVAL, .. }) => create(flags),
        other => other,
    }?;
    let number = i32::try_from(number).unwrap_or(-1);
    let taken = MemoryFile::take(process, number);
    if let Err(TakeError::Unavailable(_)) = taken {
        let descriptor = u64::from(number.unsigned_abs());
        carrier.call("close", libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
    }
    let mut file = taken?.into_file();
    file.write_all(bytes).map_err(|e| FileError::Write(proc::errno_of(e)))?;
    Ok(ObjectFile::Memory { number, pid: own_number(process) })
}

/// The number of the process in its own namespace.
fn own_number(process: &Process) -> i32 {
    let status = process.read("status").unwrap_or_default();
    let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let last = line.and_then(|line| str::from_utf8(line).ok()?.split_ascii_whitespace().last());
    last.and_then(|number| number.parse().ok()).unwrap_or(process.pid())
}

/// A file in one of the target's temporary folders.
///
/// # Errors
/// [`FileError::NoFolder`] with what was wrong with each.
pub fn in_folder(process: &Process, bytes: &[u8]) -> Result<ObjectFile, FileError> {
    let mut tried = Vec::new();
    let environment = process.read("environ").unwrap_or_default();
    let named = environment.split(|&b| b == 0).find_map(|v| v.strip_prefix(b"TMPDIR="));
    let named = named.map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)));
    let folders = named.into_iter().filter(|path| path.is_absolute());
    for path in folders.chain(FOLDERS.map(PathBuf::from)) {
        match create_in(process, &path, bytes) {
            Ok(file) => return Ok(ObjectFile::Named(file)),
            Err(why) => tried.push(format!("{}: {why}", path.display())),
        }
    }
    Err(FileError::NoFolder { tried })
}

fn create_in(process: &Process, path: &Path, bytes: &[u8]) -> Result<NamedFile, String> {
    let said = |errno: Errno| errno.desc().to_owned();
    let opened = folder(process, path, OFlag::O_RDONLY | OFlag::O_DIRECTORY).map_err(said)?;
    let status = process.status().map_err(said)?;
    if !may_write(&fstat(&opened).map_err(said)?, status.uid) {
        return Err("not the target's to write".to_owned());
    }
    let flags = fstatvfs(&opened).map_err(said)?.flags();
    if flags.contains(FsFlags::ST_NOEXEC) {
        return Err("mounted noexec".to_owned());
    }
    let name = OsString::from(file_name(process));
    let how = OpenHow::new()
        .flags(OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC)
        .mode(Mode::S_IRUSR | Mode::S_IWUSR)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS);
    let file = openat2(&opened, name.as_os_str(), how).map_err(said)?;
    let named = NamedFile { folder: opened, path: path.join(&name), name };
    // The target must be able to read it, and no other process need.
    fchown(&file, Some(Uid::from_raw(status.uid)), None).map_err(said)?;
    File::from(file).write_all(bytes).map_err(|e| e.to_string())?;
    Ok(named)
}

/// Whether a user may make files in a folder. The target names the folder, in its environment: with
/// our rights a file of its own must not come to be where it could not make one itself.
fn may_write(folder: &FileStat, user: u32) -> bool {
    let (owner, others) = (Mode::S_IWUSR.bits(), Mode::S_IWOTH.bits());
    let of_user = folder.st_uid == user && folder.st_mode & owner != 0;
    user == 0 || of_user || folder.st_mode & others != 0
}

/// The name of a file that has one.
fn file_name(process: &Process) -> String {
    format!(".{NAME}-{}", process.pid())
}

/// Removes a file that a killed heapattach has left, if `path` is what it would have been.
pub fn remove_left(process: &Process, path: &[u8]) {
    let path = Path::new(OsStr::from_bytes(path));
    let name = file_name(process);
    let Some(parent) = path.parent().filter(|_| path.file_name() == Some(name.as_ref())) else {
        return;
    };
    if let Ok(opened) = folder(process, parent, OFlag::O_RDONLY | OFlag::O_DIRECTORY) {
        let _ = unlinkat(&opened, name.as_str(), UnlinkatFlags::NoRemoveDir);
    }
}

/// A folder as the target sees it.
fn folder(process: &Process, path: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let root = process.open_root()?;
    let how = OpenHow::new()
        .flags(flags | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
    openat2(&root, Path::new(OsStr::from_bytes(path)), how)
}

/// The payload as a module of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// What `dlopen` answered: where the loader keeps what it knows of it.
    pub handle: RemoteAddr,
    /// What it added to the file's addresses.
    pub base: RemoteAddr,
    /// Its end.
    pub end: RemoteAddr,
}

impl Object {
    /// Finds it by the name of its mappings and in the loader's lists: this session had it loaded, or another.
    pub fn find(memory: &Memory, maps: &[Mapping<'_>], lists: Rendezvous) -> Option<Self> {
        let base = maps.iter().find(|m| m.file_offset == 0 && is_ours(m))?.range.start;
        Some(Self { handle: lists.entry_at(memory, base)?, base, end: end(memory, base)? })
    }

    /// The bias of its addresses.
    pub fn bias(&self) -> Bias {
        Bias::new(self.base.get())
    }

    /// Whether it, or a part of it, is still mapped.
    pub fn is_mapped(maps: &[Mapping<'_>]) -> bool {
        maps.iter().any(is_ours)
    }
}

/// Where it lies, by its mappings alone: the loader's lists may be in the middle of a change.
pub(crate) fn ranges(maps: &[Mapping<'_>]) -> impl Iterator<Item = Range<RemoteAddr>> {
    maps.iter().filter(|m| is_ours(m)).map(|m| m.range.clone())
}

fn is_ours(mapping: &Mapping<'_>) -> bool {
    let label = mapping.label().as_bytes();
    let name = label.rsplit(|&b| b == b'/').next().unwrap_or_default();
    let name = name.strip_prefix(b"memfd:").or(name.strip_prefix(b".")).unwrap_or_default();
    name.starts_with(NAME.as_bytes())
}

/// Where the last segment of the image at `base` ends.
fn end(memory: &Memory, base: RemoteAddr) -> Option<RemoteAddr> {
    const HEADER: usize = 56;
    const MOST: u16 = 64;
    let header = memory.read_vec(base, 64).ok()?;
    let count = u16::from_le_bytes([*header.get(56)?, *header.get(57)?]).min(MOST);
    let at = base.checked_add(u64_at(&header, 32)?)?;
    let headers = memory.read_vec(at, usize::from(count) * HEADER).ok()?;
    let loaded = |h: &[u8]| u32_at(h, 0) == Some(goblin::elf::program_header::PT_LOAD);
    let ends = headers.chunks_exact(HEADER).filter(|h| loaded(h));
    let end = ends.filter_map(|h| u64_at(h, 16)?.checked_add(u64_at(h, 40)?)).max()?;
    Some(Bias::new(base.get()).place(ImageAddr::new(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_process::proc::maps;

    fn knows(label: &str) -> bool {
        let line = format!("1000-2000 r--p 00000000 00:01 7 {label}\n");
        Object::is_mapped(&maps::parse(line.as_bytes()).unwrap())
    }

    #[test]
    fn the_object_is_known_by_the_name_of_its_file() {
        assert!(knows("/memfd:heapattach-payload (deleted)"));
        assert!(knows("/tmp/.heapattach-payload-4711 (deleted)"));
        assert!(!knows("/memfd:heapattach (deleted)"));
        assert!(!knows("/usr/bin/heapattach-payload"));
        assert!(!knows(""));
    }

    #[test]
    fn a_folder_that_a_user_may_not_write_takes_no_file_of_the_user() {
        let stat = |path: &str| nix::sys::stat::stat(path).unwrap();
        assert!(may_write(&stat("/tmp"), 65534));
        assert!(!may_write(&stat("/etc"), 65534));
        assert!(may_write(&stat("/etc"), 0));
    }

    #[test]
    fn a_path_in_memory_is_not_spelled_as_programs_do() {
        let file = ObjectFile::Memory { number: 7, pid: 12 };
        assert_eq!(file.path(), b"/proc/self/task/12/fd/7");
    }
}
