//! The memory of a process that stands still: stopped, or a clone that never runs.

use std::{
    io::IoSliceMut,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

use heapattach_process::{addr::RemoteAddr, memory, presence::Presence, proc::Process, proc::maps};

use crate::{Memory, Region, regions};

/// The memory.
#[derive(Debug)]
pub struct Live {
    pid: i32,
    memory: memory::Memory,
    presence: Presence,
    has_swap: bool,
    /// Bytes that were read.
    read: Arc<AtomicU64>,
}

impl Live {
    /// Of this process.
    ///
    /// # Errors
    /// Where ptrace would be refused too.
    pub fn open(process: &Process) -> Result<Self, Errno> {
        let memory = memory::Memory::open(process)?;
        let presence = Presence::of(process);
        let read = Arc::default();
        Ok(Self { pid: process.pid(), memory, presence, has_swap: true, read })
    }

    /// The same, with the bytes that are read counted there.
    #[must_use]
    pub fn counting(self, read: &Arc<AtomicU64>) -> Self {
        Self { read: Arc::clone(read), ..self }
    }

    /// The same of a process that has nothing in swap: it is not looked for there.
    #[must_use]
    pub fn without_swap(self) -> Self {
        Self { has_swap: false, ..self }
    }

    /// Its map.
    ///
    /// # Errors
    /// When it is gone.
    pub fn regions(process: &Process) -> Result<Vec<Region>, Errno> {
        let text = process.read("maps")?;
        let maps = maps::parse(&text).map_err(|_| Errno::EPROTO)?;
        Ok(regions(&maps))
    }

    fn read_some(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let base = usize::try_from(at).map_err(|_| Errno::EFAULT)?;
        let remote = [RemoteIoVec { base, len: buffer.len() }];
        let read =
            process_vm_readv(Pid::from_raw(self.pid), &mut [IoSliceMut::new(buffer)], &remote);
        match read {
            // Once it cannot be asked by its number any more, the file that was opened before is still good.
            Err(Errno::EPERM | Errno::ESRCH | Errno::ENOSYS) => {
                self.memory.read_some(RemoteAddr::new(at), buffer)
            }
            read => read,
        }
    }
}

impl Memory for Live {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            match self.read_some(at.saturating_add(done as u64), &mut buffer[done..]) {
                Ok(read @ 1..) => done += read,
                _ => break,
            }
        }
        // Only a number that is shown: nothing depends on it.
        self.read.fetch_add(done as u64, Relaxed);
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.presence.there(range)
    }

    fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        if self.has_swap { self.presence.swapped(range) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moment;

    #[test]
    fn words_of_this_process_are_what_they_are() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let live = Live::open(&process).unwrap();
        let boxed = Box::new(0x1234_5678_9abc_def0_u64);
        let moment = Moment::new(&live, Live::regions(&process).unwrap(), Vec::new());
        assert_eq!(moment.word(&raw const *boxed as u64), Some(*boxed));
        assert!(moment.images().iter().any(|image| !image.data.is_empty()));
    }
}
