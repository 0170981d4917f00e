//! The counters that the target's hooks add to, seen from our side: a file without a name that
//! both map. We only read it, and only through the file: reading a hole through a mapping would
//! fill it, and the target's cgroup would pay.

use std::{
    fs::File,
    os::{fd::OwnedFd, unix::fs::FileExt},
};

use heapattach_abi::table::TABLE_BYTES;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, SealFlag, fcntl},
    unistd::{Whence, ftruncate, lseek},
};

use crate::{
    addr::RemoteAddr,
    counts::{CallSite, aggregate},
    memory::Memory,
    proc::errno_of,
};

/// The counters.
#[derive(Debug)]
pub enum Counters {
    /// In a file that both map; it outlives the target.
    Shared(File),
    /// In memory of the target alone, where it could not make a file (no descriptor free, say);
    /// they are gone when it ends.
    Private(RemoteAddr),
}

impl Counters {
    /// Gives the target's new memory file its size, and forbids to take it away again.
    ///
    /// # Errors
    /// `ENOMEM`, `ENOSPC`.
    pub fn size(descriptor: OwnedFd) -> Result<Self, Errno> {
        crate::fault::point("ftruncate")?;
        ftruncate(&descriptor, TABLE_BYTES as i64)?;
        // A kernel without seals is no reason to fail: a shrunken file reads short, no more.
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        let _ = fcntl(&descriptor, FcntlArg::F_ADD_SEALS(seals));
        Ok(Self::Shared(File::from(descriptor)))
    }

    /// What was counted up to now.
    ///
    /// # Errors
    /// What reading says.
    pub fn read(&self, memory: &Memory) -> Result<Vec<CallSite>, Errno> {
        let mut copy = vec![0; TABLE_BYTES];
        let filled = match self {
            Self::Shared(file) => read_file(file, &mut copy)?,
            Self::Private(at) => memory.read_some(*at, &mut copy)?,
        };
        Ok(aggregate(&copy[..filled]))
    }

    /// Bytes of memory that the counters take by now, if that can be known.
    pub fn memory(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        match self {
            Self::Shared(file) => file.metadata().ok().map(|m| m.blocks() * 512),
            Self::Private(_) => None,
        }
    }
}

/// Reads what was ever written; the holes between are zero already, and most of the file.
fn read_file(file: &File, copy: &mut [u8]) -> Result<usize, Errno> {
    let seek = |from: usize, whence| {
        let from = i64::try_from(from).map_err(|_| Errno::EINVAL)?;
        let found = lseek(file, from, whence)?;
        usize::try_from(found).map_err(|_| Errno::EINVAL)
    };
    let mut at = 0;
    while at < copy.len() {
        at = match seek(at, Whence::SeekData) {
            Ok(data) => data,
            Err(Errno::ENXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = seek(at, Whence::SeekHole)?.min(copy.len());
        while at < end {
            match file.read_at(&mut copy[at..end], at as u64) {
                Ok(0) => return Ok(copy.len()),
                Ok(n) => at += n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(errno_of(error)),
            }
        }
    }
    Ok(copy.len())
}
