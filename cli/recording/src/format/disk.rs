//! What a recording is written to: a file, or in tests what behaves like a bad one.

use std::{fmt::Debug, fs::File, io, os::unix::fs::FileExt};

/// Bytes that stay.
pub trait Disk: Debug + Send {
    /// Writes all of them at this offset.
    ///
    /// # Errors
    /// There is no room, or it is broken.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Reads so many from this offset.
    ///
    /// # Errors
    /// There are not so many, or it is broken.
    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;

    /// Forgets what is behind.
    ///
    /// # Errors
    /// It is broken.
    fn cut(&self, length: u64) -> io::Result<()>;
}

impl Disk for File {
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}
