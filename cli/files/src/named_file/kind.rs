//! What kind of file it is, and why one of that kind is not taken.

use nix::{
    libc::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK, S_ISVTX},
    sys::stat::{FileStat, major, minor},
};

/// `/dev/null`, `/dev/zero` and `/dev/full`, by the numbers that Linux has given them for good.
const MEMORY: u64 = 1;
const HARMLESS: [u64; 3] = [3, 5, 7];

/// Whether opening and using it has no effect on anything.
pub fn is_harmless_device(stat: &FileStat) -> bool {
    stat.st_mode & S_IFMT == S_IFCHR
        && major(stat.st_rdev) == MEMORY
        && HARMLESS.contains(&minor(stat.st_rdev))
}

/// Whether others than its owner may put files of their own into this folder.
pub fn is_shared(folder: &FileStat) -> bool {
    let is_sticky = folder.st_mode & S_ISVTX != 0;
    folder.st_mode & 0o002 != 0 || (is_sticky && folder.st_mode & 0o020 != 0)
}

/// Why it is not a file to read or write, in words; `None` for a regular file.
pub fn refusal(stat: &FileStat) -> Option<&'static str> {
    let what = match stat.st_mode & S_IFMT {
        S_IFREG => return None,
        S_IFIFO => {
            "it is a named pipe, which may never be ready; need a regular file, or a process \
             substitution of the shell"
        }
        S_IFCHR | S_IFBLK => "it is a device; need a regular file",
        S_IFSOCK => "it is a socket; need a regular file",
        S_IFDIR => "it is a folder; need a regular file",
        _ => "it is not a regular file; need one",
    };
    Some(what)
}
