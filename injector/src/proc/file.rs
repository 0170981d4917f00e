//! A file of the target, opened safely: under its own root, regular, of bounded size, and the very
//! file that is mapped.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{OFlag, OpenHow, ResolveFlag, openat2},
};

use super::{Process, errno_of, maps::Mapping};

/// Larger modules (debug builds of browsers) are read only in part by those who need symbols.
const FILE_LIMIT: u64 = 2 << 30;

/// Opens the file behind `mapping`. An absolute link below `/proc/PID/root` would lead into our
/// own root, hence `RESOLVE_IN_ROOT`.
///
/// # Errors
/// `ESTALE` if the path now names another file and the mapped one cannot be had.
pub fn open_module(process: &Process, mapping: &Mapping<'_>) -> Result<File, Errno> {
    let by_name = mapping.file().ok_or(Errno::ESTALE).and_then(|path| open_in_root(process, path));
    by_name
        .and_then(|file| {
            let found = file.metadata().map_err(errno_of)?;
            if found.ino() == mapping.inode { Ok(file) } else { Err(Errno::ESTALE) }
        })
        .or_else(|error| {
            let (start, end) = (mapping.range.start.get(), mapping.range.end.get());
            let exact = process.open_mapped(start, end).map_err(|_| error)?;
            checked(File::from(exact))
        })
}

/// Reads a whole module file.
///
/// # Errors
/// As [`open_module`]; `EFBIG` beyond the limit.
pub fn read_module(process: &Process, mapping: &Mapping<'_>) -> Result<Vec<u8>, Errno> {
    let file = open_module(process, mapping)?;
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT).read_to_end(&mut bytes).map_err(errno_of)?;
    Ok(bytes)
}

fn open_in_root(process: &Process, path: &Path) -> Result<File, Errno> {
    let root = process.open_below("root", OFlag::O_PATH | OFlag::O_DIRECTORY)?;
    // O_NONBLOCK: a fifo put in the file's place must not hold us.
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let path = path.as_os_str().as_bytes().strip_prefix(b"/").unwrap_or_default();
    let fd = openat2(&root, Path::new(OsStr::from_bytes(path)), how)?;
    checked(File::from(fd))
}

fn checked(file: File) -> Result<File, Errno> {
    let metadata = file.metadata().map_err(errno_of)?;
    if !metadata.is_file() {
        return Err(Errno::EINVAL);
    }
    if metadata.len() > FILE_LIMIT { Err(Errno::EFBIG) } else { Ok(file) }
}
