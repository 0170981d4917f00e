//! Files that are read for the user: rules, known leaks, recordings. Every file that an option or an
//! argument names is opened here.
//!
//! A named pipe or a device is not waited for, and no file is larger than its kind may be. A
//! descriptor that we were given (`/dev/stdin`, what a shell writes for `<(...)`) is read as far as
//! the limit, for as long as its other end takes: Ctrl-C ends that, since no target is attached yet.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::FileStat};

use heapattach_text::quantity;

use crate::named_file::{Own, Place, Use, find, is_harmless_device, refusal};

/// Reads a whole file of text, which may have so many bytes.
///
/// # Errors
/// With its name, and why it could not be.
pub fn text(path: &Path, limit: u64) -> Result<String, String> {
    let read = open(path).and_then(|(file, _)| {
        let mut text = String::new();
        let length = file.take(limit + 1).read_to_string(&mut text)? as u64;
        if length <= limit { Ok(text) } else { Err(too_large(limit)) }
    });
    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Opens a file to read in it here and there.
///
/// # Errors
/// Why it cannot be read.
pub fn regular(path: &Path) -> io::Result<File> {
    let (file, stat) = open(path)?;
    match refusal(&stat) {
        None => Ok(file),
        Some(_) if Own::named(path).is_some() => {
            Err(io::Error::other("it is a pipe, and is read in pieces; save it to a file first"))
        }
        Some(why) => Err(io::Error::other(why)),
    }
}

fn too_large(limit: u64) -> io::Error {
    let most = quantity::bytes(limit);
    io::Error::other(format!("it is larger than {most}, the limit for such a file"))
}

fn open(path: &Path) -> io::Result<(File, FileStat)> {
    let found = match find(path, Use::Read)? {
        Place::Own(own) => return own.to_read(),
        Place::Named(found) => found,
    };
    let (file, stat) = found.file.ok_or(Errno::ENOENT)?;
    if let Some(why) = refusal(&stat).filter(|_| !is_harmless_device(&stat)) {
        return Err(io::Error::other(why));
    }
    // The very file that was looked at. Without waiting for one who holds a lease on it.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let exact = format!("/proc/self/fd/{}", file.as_raw_fd());
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(exact)?;
    Ok((file, stat))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_file_is_read_as_far_as_its_limit() {
        let folder = Folder::new("input");
        let path = folder.0.join("rules");
        fs::write(&path, "12345").unwrap();
        assert_eq!(text(&path, 5).as_deref(), Ok("12345"));
        let refused = text(&path, 4).unwrap_err();
        assert!(refused.contains("larger than 4 B"), "{refused}");
        assert_eq!(text(Path::new("/dev/null"), 4).as_deref(), Ok(""));
        let endless = text(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert!(endless.contains("larger than 1.0 MiB"), "{endless}");
    }

    #[test]
    fn a_named_pipe_is_not_waited_for() {
        let folder = Folder::new("input-pipe");
        let path = folder.0.join("pipe");
        mkfifo(&path, Mode::S_IRWXU).unwrap();
        let refused = text(&path, 100).unwrap_err();
        assert!(refused.contains("it is a named pipe"), "{refused}");
        assert!(regular(&path).is_err() && regular(Path::new("/dev/null")).is_err());
        assert!(regular(&folder.0.join("none")).is_err());
    }
}
