//! A file tree to look for debug information in: ours, or the one the target sees.

use std::{
    ffi::{OsStr, OsString},
    fs::{File, OpenOptions},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
};

use heapattach_injector::proc::Process;
use nix::{
    dir::Dir,
    fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2},
    sys::{
        stat::Mode,
        statfs::{DEBUGFS_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, TRACEFS_MAGIC, fstatfs},
    },
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

    /// The tree `process` sees.
    pub fn of(process: &Process) -> Option<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        process.open_below("root", flags).ok().map(|directory| Self { directory })
    }

    /// Opens a regular file for reading; links lead no further than the root.
    pub fn open(&self, path: &Path) -> Option<File> {
        let found = File::from(self.find(path, OFlag::O_PATH)?);
        // Looked at before it is opened: the path may be the target's choice, and opening some
        // devices does things (a watchdog reboots the machine).
        if !found.metadata().ok()?.is_file() || !is_stored(&found)? {
            return None;
        }
        let exact = format!("/proc/self/fd/{}", found.as_raw_fd());
        OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(exact).ok()
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

/// Whether a file is more than a window into the kernel: to read `/proc/kmsg` takes messages away
/// from others, and who made the module may have named it.
fn is_stored(file: &File) -> Option<bool> {
    let kind = fstatfs(file).ok()?.filesystem_type();
    Some(![PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC].contains(&kind))
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
