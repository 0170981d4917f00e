//! The target's memory, through its `mem` file: reads are bounded, writes reach read-only pages
//! too (RELRO stays RELRO, text stays read-only), and both fail harmlessly once it execs or ends.

use std::{fs::File, os::unix::fs::FileExt, sync::Arc};

use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    core_file::CoreFile,
    fault,
    proc::{Process, errno_of},
};

/// Reading and writing another process.
#[derive(Debug)]
pub struct Memory {
    source: Source,
}

/// Where it is.
#[derive(Debug)]
enum Source {
    /// A file whose offsets are its addresses.
    File(File),
    /// A core, which can only be read.
    Core(Arc<CoreFile>),
}

impl Memory {
    /// Opens the memory of `process` as it is now; after an exec this handle reads nothing.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where ptrace would be refused too.
    pub fn open(process: &Process) -> Result<Self, Errno> {
        process.open_memory().map(Self::of)
    }

    /// Memory whose addresses are the offsets of `file`.
    pub fn of(file: File) -> Self {
        Self { source: Source::File(file) }
    }

    /// Memory as a core has it.
    pub fn of_core(core: Arc<CoreFile>) -> Self {
        Self { source: Source::Core(core) }
    }

    /// The file whose offsets are its addresses; of a core, the core.
    pub fn file(&self) -> &File {
        match &self.source {
            Source::File(file) => file,
            Source::Core(core) => core.file(),
        }
    }

    /// Fills `buffer` from `address`.
    ///
    /// # Errors
    /// `EIO` where nothing is mapped.
    pub fn read(&self, address: RemoteAddr, buffer: &mut [u8]) -> Result<(), Errno> {
        let read = self.read_some(address, buffer)?;
        if read == buffer.len() { Ok(()) } else { Err(Errno::EIO) }
    }

    /// Fills as much of `buffer` as is mapped from `address` on.
    ///
    /// # Errors
    /// `EIO` if not even the first byte is mapped.
    pub fn read_some(&self, address: RemoteAddr, buffer: &mut [u8]) -> Result<usize, Errno> {
        let file = match &self.source {
            Source::File(file) => file,
            Source::Core(core) => {
                let read = core.read(address.get(), buffer);
                return if read == 0 && !buffer.is_empty() { Err(Errno::EIO) } else { Ok(read) };
            }
        };
        let mut done = 0;
        while done < buffer.len() {
            let at = address.get().checked_add(done as u64).ok_or(Errno::EFAULT)?;
            // The kernel takes offsets as signed.
            if i64::try_from(at).is_err() {
                return if done == 0 { Err(Errno::EIO) } else { Ok(done) };
            }
            match file.read_at(&mut buffer[done..], at) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) if done > 0 => break,
                Err(error) => return Err(errno_of(error)),
            }
        }
        Ok(done)
    }

    /// `length` bytes from `address`; the caller bounds `length`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn read_vec(&self, address: RemoteAddr, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        self.read(address, &mut bytes)?;
        Ok(bytes)
    }

    /// The word at `address`.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn word(&self, address: RemoteAddr) -> Result<u64, Errno> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A string of the target, without its terminator, at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn string(&self, address: RemoteAddr, limit: usize) -> Result<Vec<u8>, Errno> {
        // Most are short.
        const PIECE: usize = 256;
        let mut bytes = Vec::new();
        while bytes.len() < limit {
            let done = bytes.len();
            bytes.resize(limit.min(done + PIECE), 0);
            let from = address.checked_add(done as u64).ok_or(Errno::EFAULT)?;
            let read = match self.read_some(from, &mut bytes[done..]) {
                Err(errno) if done == 0 => return Err(errno),
                read => read.unwrap_or(0),
            };
            if let Some(end) = bytes[done..done + read].iter().position(|&b| b == 0) {
                bytes.truncate(done + end);
                return Ok(bytes);
            }
            if done + read < bytes.len() {
                break;
            }
        }
        Err(Errno::ENAMETOOLONG)
    }

    /// Writes `bytes` at `address`.
    ///
    /// # Errors
    /// `EIO` where nothing is mapped.
    pub fn write(&self, address: RemoteAddr, bytes: &[u8]) -> Result<(), Errno> {
        fault::point("write")?;
        match &self.source {
            Source::File(file) => file.write_all_at(bytes, address.get()).map_err(errno_of),
            Source::Core(_) => Err(Errno::EROFS),
        }
    }

    /// Writes one word.
    ///
    /// # Errors
    /// As [`Memory::write`].
    pub fn write_word(&self, address: RemoteAddr, word: u64) -> Result<(), Errno> {
        self.write(address, &word.to_le_bytes())
    }
}
