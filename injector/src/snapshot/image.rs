//! The bytes of a target as they were at one moment, however they are kept.

use std::{
    io::IoSliceMut,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

use crate::{
    addr::RemoteAddr,
    home::{Home, PAGE},
    memory::Memory,
    root::RootKind,
    stopped::Stopped,
    target::Target,
};

use super::{clone::Clone, scene::Scene};

/// How the moment is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all: everything is read while the target stands still.
    Stop,
    /// Copied while it stands still.
    Copy,
    /// By a clone of the target that never runs.
    Fork,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The target is gone.
    #[error("the memory map of the target cannot be read")]
    Maps(#[source] Errno),
    /// A copy would take too much of our own memory.
    #[error(
        "{bytes} bytes of the target's memory are to be copied; {available} are available here"
    )]
    TooLarge {
        /// What is to be copied.
        bytes: u64,
        /// What this machine has.
        available: u64,
    },
    /// There is no clone.
    #[error("the target could not be cloned")]
    Clone(#[from] super::clone::CloneError),
}

/// Memory as it was.
#[derive(Debug)]
pub struct Image<'t> {
    target: &'t Target,
    /// Whose memory is read: a thread of the target, or the clone.
    reader: i32,
    clone: Option<Clone<'t>>,
    /// What was copied, by its address.
    copies: Vec<(u64, Vec<u8>)>,
    /// Pages that could not be read.
    pub unreadable: u64,
}

impl<'t> Image<'t> {
    /// Of a stopped target; without a copy or a clone it must stay so.
    ///
    /// # Errors
    /// When there is no room for a copy, or no clone to be had; the target is as it was.
    pub fn take(
        stop: &Stopped<'t>,
        scene: &Scene,
        method: Method,
        home: Option<&Home>,
    ) -> Result<Self, SnapshotError> {
        let target = stop.target();
        let reader = stop.threads().first().map_or(target.process.pid(), |thread| thread.tid);
        let mut image = Self { target, reader, clone: None, copies: Vec::new(), unreadable: 0 };
        match method {
            Method::Stop => {}
            Method::Copy => image.copy(scene, |_| true)?,
            Method::Fork => {
                let clone = Clone::make(stop, home)?;
                // A clone lacks what is not to be forked, and sees shared memory change.
                let has = clone.mappings();
                let lacks = |range: &std::ops::Range<u64>| {
                    !has.iter().any(|own| own.start <= range.start && range.end <= own.end)
                };
                image.copy(scene, lacks)?;
                image.reader = clone.pid();
                image.clone = Some(clone);
            }
        }
        Ok(image)
    }

    /// Copies the areas that are wanted, and shared ones if anything is kept at all.
    fn copy(
        &mut self,
        scene: &Scene,
        is_wanted: impl Fn(&std::ops::Range<u64>) -> bool,
    ) -> Result<(), SnapshotError> {
        let areas = scene.areas.iter();
        let areas: Vec<_> =
            areas.filter(|a| a.holder == RootKind::Shared || is_wanted(&a.range)).collect();
        let bytes = areas.iter().map(|area| area.range.end - area.range.start).sum();
        let available = available_memory();
        if bytes > available {
            return Err(SnapshotError::TooLarge { bytes, available });
        }
        for area in areas {
            let length = usize::try_from(area.range.end - area.range.start).unwrap_or(0);
            let mut copy = vec![0; length];
            self.read_from(area.range.start, &mut copy);
            self.copies.push((area.range.start, copy));
        }
        self.copies.sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// Fills `buffer` from the address; what cannot be read is zero, and counted.
    pub fn read(&mut self, at: u64, buffer: &mut [u8]) {
        let index = self.copies.partition_point(|(start, _)| *start <= at);
        let copy = index.checked_sub(1).and_then(|index| self.copies.get(index));
        if let Some((start, bytes)) = copy
            && let Ok(offset) = usize::try_from(at - start)
            && let Some(bytes) = bytes.get(offset..offset.saturating_add(buffer.len()))
        {
            buffer.copy_from_slice(bytes);
            return;
        }
        self.read_from(at, buffer);
    }

    /// The same where it was not copied.
    fn read_from(&mut self, at: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let rest = &mut buffer[done..];
            match self.read_some(from, rest) {
                Ok(read @ 1..) => done += read,
                _ => {
                    let page = PAGE - from % PAGE;
                    let skipped = usize::try_from(page).unwrap_or(0).clamp(1, rest.len());
                    rest[..skipped].fill(0);
                    self.unreadable += 1;
                    done += skipped;
                }
            }
        }
    }

    fn read_some(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let base = usize::try_from(at).map_err(|_| Errno::EFAULT)?;
        let remote = [RemoteIoVec { base, len: buffer.len() }];
        let read =
            process_vm_readv(Pid::from_raw(self.reader), &mut [IoSliceMut::new(buffer)], &remote);
        match (read, &self.clone) {
            // Once it cannot be asked by its number any more, the file that was opened before is
            // still good.
            (Err(Errno::EPERM | Errno::ESRCH | Errno::ENOSYS), None) => {
                through(&self.target.memory, at, buffer)
            }
            (read, _) => read,
        }
    }

    /// Lets go of a clone; answers how long the target stood still for that.
    ///
    /// # Errors
    /// When its end could not be taken in: what is left is a zombie.
    pub fn finish(self) -> Result<Duration, SnapshotError> {
        let since = Instant::now();
        match self.clone {
            Some(clone) => Ok(clone.finish()?),
            None => Ok(since.elapsed()),
        }
    }
}

fn through(memory: &Memory, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
    memory.read_some(RemoteAddr::new(at), buffer)
}

/// Half of the memory that this machine could give away.
fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024 / 2)
}
