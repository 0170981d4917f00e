//! Names of descriptors that we have open already: `/dev/stdout`, and what shells write for `<(...)`
//! and `>(...)`. What is behind them is the caller's choice, not that of a folder.

use std::{
    fs::{File, OpenOptions},
    io::{self, stderr, stdin, stdout},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::Path,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::stat::{FileStat, fstat},
};

/// Folders that hold them.
const FOLDERS: [&str; 2] = ["/dev/fd/", "/proc/self/fd/"];

/// One of our own descriptors, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own(u32);

impl Own {
    /// Standard output.
    pub const OUTPUT: Self = Self(1);

    /// The descriptor that this path names.
    pub fn named(path: &Path) -> Option<Self> {
        let number = match path.as_os_str().as_bytes() {
            b"/dev/stdin" => 0,
            b"/dev/stdout" => 1,
            b"/dev/stderr" => 2,
            _ => {
                let path = path.to_str()?;
                let digits = FOLDERS.iter().find_map(|folder| path.strip_prefix(folder))?;
                digits.parse().ok()?
            }
        };
        Some(Self(number))
    }

    /// To write to, from where it stands; a regular file behind a number of the caller's own is
    /// begun anew.
    ///
    /// # Errors
    /// It is not open, or not for writing.
    pub fn to_write(self) -> io::Result<File> {
        match self.0 {
            1 => stdout().as_fd().try_clone_to_owned().map(File::from),
            2 => stderr().as_fd().try_clone_to_owned().map(File::from),
            _ => self.reopen(OpenOptions::new().write(true).truncate(true)),
        }
    }

    /// To read from: a regular file from its beginning, all else from where it stands.
    ///
    /// # Errors
    /// It is not open, or not for reading.
    pub fn to_read(self) -> io::Result<(File, FileStat)> {
        let file = match self.reopen(OpenOptions::new().read(true)) {
            // A socket cannot be opened a second time.
            Err(_) if self.0 == 0 => stdin().as_fd().try_clone_to_owned().map(File::from)?,
            file => file?,
        };
        let stat = fstat(&file)?;
        Ok((file, stat))
    }

    /// Without waiting for the other end of a pipe to be opened: there is one.
    fn reopen(self, options: &mut OpenOptions) -> io::Result<File> {
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let file = options.custom_flags(flags.bits()).open(format!("/proc/self/fd/{}", self.0))?;
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags - OFlag::O_NONBLOCK))?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_known_by_all_of_its_names() {
        let named = |path: &str| Own::named(Path::new(path));
        assert_eq!(named("/dev/stdout"), Some(Own::OUTPUT));
        assert_eq!(named("/dev/fd/63"), Some(Own(63)));
        assert_eq!(named("/proc/self/fd/1"), Some(Own::OUTPUT));
        for path in ["/dev/fd/", "/dev/fd/a", "/dev/fd/-1", "stdout", "/proc/1/fd/1", ""] {
            assert_eq!(named(path), None, "{path}");
        }
    }

    #[test]
    fn a_descriptor_that_is_not_open_is_an_error() {
        let error = Own(987_654).to_read().map(drop).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(Own(987_654).to_write().is_err());
    }
}
