//! A file tree to look for debug information in: ours, or the one the target sees.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
};

use heapattach_process::proc::{Process, file, regular};
use nix::{
    dir::Dir,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::stat::{Mode, fstat},
};

/// Larger folders are read in part.
const NAMES_LIMIT: usize = 1 << 16;

/// The top of a file tree; it stays reachable when the process it was taken from has ended.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

impl Root {
    /// The tree this process sees.
    pub fn own() -> Option<Self> {
        Self::at(Path::new("/"))
    }

    /// The tree below a folder of ours.
    pub fn at(folder: &Path) -> Option<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        open(folder, flags, Mode::empty()).ok().map(|directory| Self { directory })
    }

    /// Which folder it is.
    pub fn identity(&self) -> Option<(u64, u64)> {
        fstat(&self.directory).ok().map(|stat| (stat.st_dev, stat.st_ino))
    }

    /// The tree `process` sees.
    pub fn of(process: &Process) -> Option<Self> {
        process.open_root().ok().map(|directory| Self { directory })
    }

    /// Opens a regular file for reading; links lead no further than the root.
    pub fn open(&self, path: &Path) -> Option<File> {
        regular::open_held(file::hold_in(&self.directory, path).ok()?).ok()
    }

    /// What is in a folder, as far as [`NAMES_LIMIT`].
    pub fn names(&self, folder: &Path) -> Vec<OsString> {
        let directory = self.find(folder, OFlag::O_RDONLY | OFlag::O_DIRECTORY);
        let Some(Ok(mut directory)) = directory.map(Dir::from_fd) else { return Vec::new() };
        let entries = directory.iter().filter_map(Result::ok).take(NAMES_LIMIT);
        entries.map(|e| OsStr::from_bytes(e.file_name().to_bytes()).to_owned()).collect()
    }

    fn find(&self, path: &Path, flags: OFlag) -> Option<OwnedFd> {
        let how = OpenHow::new()
            .flags(flags | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let path = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
        openat2(&self.directory, Path::new(OsStr::from_bytes(path)), how).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_regular_files_only() {
        let root = Root::own().unwrap();
        assert!(root.open(Path::new("/proc/self/exe")).is_none(), "through a magic link");
        assert!(root.open(&std::env::current_exe().unwrap()).is_some());
        for path in ["/dev/null", "/", "", "/no/such/file", "/proc/version", "/sys/kernel/notes"] {
            assert!(root.open(Path::new(path)).is_none(), "{path}");
        }
    }
}
