//! The bytes of a target as they were at one moment, however they are kept.

use std::{io::IoSliceMut, ops::Range, time::Duration};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

use crate::{
    addr::RemoteAddr,
    home::{Home, PAGE},
    memory::Memory,
    proc::Process,
    root::RootKind,
    stopped::Stopped,
};

use super::{area::Area, clone::Clone, presence::Presence, scene::Scene};

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

/// Memory as it was. It can be read in another thread than that which traces the target.
#[derive(Debug)]
pub struct Image<'t> {
    memory: &'t Memory,
    /// Whose memory is read: a thread of the target, or the clone.
    reader: i32,
    is_clone: bool,
    /// What was copied, by its address.
    copies: Vec<(u64, Vec<u8>)>,
    /// Pages that could not be read.
    pub unreadable: u64,
}

/// What an image needs to be there while it is read. For the thread that traces the target.
#[derive(Debug)]
pub struct Kept<'t>(Option<Clone<'t>>);

impl<'t> Image<'t> {
    /// Of a stopped target; without a copy or a clone it must stay so.
    ///
    /// # Errors
    /// When there is no room for a copy, or no clone to be had; the target is as it was.
    pub fn take(
        stop: &Stopped<'t>,
        scene: &mut Scene,
        method: Method,
        home: Option<&Home>,
    ) -> Result<(Self, Kept<'t>), SnapshotError> {
        let target = stop.target();
        let reader = stop.threads().first().map_or(target.process.pid(), |thread| thread.tid);
        let memory = &target.memory;
        let mut image = Self { memory, reader, is_clone: false, copies: Vec::new(), unreadable: 0 };
        let presence = Presence::of(&target.process);
        match method {
            Method::Stop => {
                let areas = std::mem::take(&mut scene.areas).into_iter();
                scene.areas = areas.flat_map(|area| area.written(&presence)).collect();
                Ok((image, Kept(None)))
            }
            Method::Copy => {
                image.copy(scene, &presence, |_| true)?;
                Ok((image, Kept(None)))
            }
            Method::Fork => {
                let clone = Clone::make(stop, home)?;
                // A clone lacks what is not to be forked, and sees shared memory change.
                let has = clone.mappings();
                image.copy(scene, &presence, |area| {
                    let is_in =
                        |m: &Range<u64>| m.start <= area.range.start && area.range.end <= m.end;
                    may_be_shared(area.holder) || !has.iter().any(is_in)
                })?;
                (image.reader, image.is_clone) = (clone.pid(), true);
                Ok((image, Kept(Some(clone))))
            }
        }
    }

    /// The target's memory as it is now.
    pub fn memory(&self) -> &'t Memory {
        self.memory
    }

    /// Whether it is still what was taken: a clone can be killed by somebody else.
    pub fn is_whole(&self, scene: &Scene) -> bool {
        let first = scene.areas.first().map_or(0, |area| area.range.start);
        !self.is_clone || self.read_some(first, &mut [0]) != Err(Errno::ESRCH)
    }

    /// Leaves out of the scene what was never written to, if that is not done: with a clone there is
    /// time for it when the target goes on.
    pub fn settle(&self, scene: &mut Scene) {
        if !self.is_clone {
            return;
        }
        let Ok(process) = Process::open(self.reader) else {
            // There is nothing to be looked through any more; see [`Image::is_whole`].
            return scene.areas.clear();
        };
        let presence = Presence::of(&process);
        let is_copied = |area: &Area| {
            self.copies.binary_search_by_key(&area.range.start, |(at, _)| *at).is_ok()
        };
        let areas = std::mem::take(&mut scene.areas).into_iter();
        let cut = |area: Area| match is_copied(&area) {
            true => vec![area],
            false => area.written(&presence),
        };
        scene.areas = areas.flat_map(cut).collect();
    }

    /// Copies the areas that are wanted, as far as they were written to.
    fn copy(
        &mut self,
        scene: &mut Scene,
        presence: &Presence,
        is_wanted: impl Fn(&Area) -> bool,
    ) -> Result<(), SnapshotError> {
        let cut = |area: Area| if is_wanted(&area) { area.written(presence) } else { vec![area] };
        scene.areas = std::mem::take(&mut scene.areas).into_iter().flat_map(cut).collect();
        let areas: Vec<_> = scene.areas.iter().filter(|area| is_wanted(area)).collect();
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
        match (read, self.is_clone) {
            // Once it cannot be asked by its number any more, the file that was opened before is
            // still good.
            (Err(Errno::EPERM | Errno::ESRCH | Errno::ENOSYS), false) => {
                through(self.memory, at, buffer)
            }
            (read, _) => read,
        }
    }
}

impl Kept<'_> {
    /// Lets go of a clone; answers how long the target stood still for that.
    ///
    /// # Errors
    /// When its end could not be taken in: what is left is a zombie.
    pub fn finish(self) -> Result<Duration, SnapshotError> {
        self.0.map_or(Ok(Duration::ZERO), |clone| Ok(clone.finish()?))
    }

    /// The same of a target that is gone, or became another program, which knows nothing of it.
    pub fn abandon(self) {
        if let Some(clone) = self.0 {
            clone.abandon();
        }
    }
}

/// Whether others may write there.
fn may_be_shared(holder: RootKind) -> bool {
    matches!(holder, RootKind::Shared | RootKind::Announced)
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
