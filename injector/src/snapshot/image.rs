//! The bytes of a target as they were at one moment, however they are kept.

use std::{
    io::IoSliceMut,
    ops::Range,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::uio::{RemoteIoVec, process_vm_readv},
    unistd::Pid,
};

use crate::home::{Home, PAGE};
use crate::trace::stopped::Stopped;
use heapattach_process::{
    addr::RemoteAddr,
    fault,
    memory::Memory,
    presence::Presence,
    proc::{Process, maps},
    root::RootKind,
};

use super::{
    area::Area,
    clone::Clone,
    early_copy::{EarlyCopy, EarlyError},
    finished_copy::clear_gone,
    scene::Scene,
};

/// So much is copied at once, between two looks at the clock.
const PIECE: usize = 256 << 10;
/// Books are no larger.
const MOST_BOOKS: u64 = 64 << 10;

/// How the moment is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all: everything is read while the target is stopped.
    Stop,
    /// Copied while it is stopped.
    Copy,
    /// By a clone of the target that never runs.
    Fork,
    /// Copied while it runs; what was written meanwhile is copied again while it is stopped.
    Early,
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
    /// The target would be stopped for longer than it may.
    #[error(
        "keeping the moment took longer than the process may be stopped: given up {beyond:?} later"
    )]
    OutOfTime {
        /// How much longer than it may that is.
        beyond: Duration,
    },
    /// There is no clone.
    #[error("the target could not be cloned")]
    Clone(#[from] super::clone::CloneError),
    /// What was copied early cannot be used.
    #[error("the early copy cannot be finished")]
    Early(#[from] EarlyError),
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
    /// How much of an early copy had to be copied again in the stop.
    pub late: Option<u64>,
    /// What an early copy has: the mappings, and what of them is there.
    early: [Vec<Range<u64>>; 2],
    /// When the target is to go on, if that is not over until then.
    until: Option<Instant>,
    is_late: bool,
}

/// What an image needs to be there while it is read. For the thread that traces the target.
#[derive(Debug)]
pub struct Kept<'t>(Option<Clone<'t>>);

impl<'t> Image<'t> {
    /// Of a stopped target; without a copy or a clone it must stay so.
    ///
    /// # Errors
    /// When there is no room for a copy, or no clone to be had, or it takes longer than `until`; the
    /// target is as it was.
    pub fn take(
        stop: &Stopped<'t>,
        scene: &mut Scene,
        (method, early): (Method, Option<&mut EarlyCopy>),
        home: Option<&Home>,
        until: Option<Instant>,
    ) -> Result<(Self, Kept<'t>), SnapshotError> {
        let target = stop.target();
        let reader = stop.threads().first().map_or(target.process.pid(), |thread| thread.tid);
        let memory = &target.memory;
        let mut image = Self {
            memory,
            reader,
            is_clone: false,
            copies: Vec::new(),
            unreadable: 0,
            late: None,
            early: Default::default(),
            until,
            is_late: false,
        };
        image.check_time()?;
        let presence = Presence::of(&target.process).until(until);
        match method {
            Method::Stop => {
                let areas = std::mem::take(&mut scene.areas).into_iter();
                scene.areas = areas.flat_map(|area| area.written(&presence)).collect();
                if presence.is_late() { image.out_of_time() } else { Ok((image, Kept(None))) }
            }
            Method::Copy | Method::Early => {
                let all = fault::is_comparing().then(|| scene.areas.clone());
                let areas = early.map(|early| image.take_early(early, scene)).transpose()?;
                let areas = areas.unwrap_or_default();
                image.copy(scene, &presence, "copy", |area| !is_within(&area.range, &areas))?;
                image.copy_books(&scene.books);
                if let Some(all) = all {
                    image.compare(all, &scene.areas, &presence);
                }
                fault::hold("copied");
                image.until = None;
                Ok((image, Kept(None)))
            }
            Method::Fork => {
                let clone = Clone::make(stop, home)?;
                // A clone lacks what is not to be forked, and sees shared memory change.
                let has = clone.mappings();
                let copied = image.copy(scene, &presence, "share", |area| {
                    let is_in =
                        |m: &Range<u64>| m.start <= area.range.start && area.range.end <= m.end;
                    may_be_shared(area.holder) || !has.iter().any(is_in)
                });
                if let Err(error) = copied {
                    clone.discard(stop)?;
                    return Err(error);
                }
                image.until = None;
                (image.reader, image.is_clone) = (clone.pid(), true);
                Ok((image, Kept(Some(clone))))
            }
        }
    }

    fn check_time(&self) -> Result<(), SnapshotError> {
        match self.until {
            Some(until) if Instant::now() >= until => self.out_of_time(),
            _ => Ok(()),
        }
    }

    fn out_of_time<T>(&self) -> Result<T, SnapshotError> {
        let beyond = self.until.map(|until| until.elapsed()).unwrap_or_default();
        Err(SnapshotError::OutOfTime { beyond })
    }

    /// Whether the target is stopped for it and should not any more: what is read from now on says
    /// nothing.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// The target's memory as it is now.
    pub fn memory(&self) -> &'t Memory {
        self.memory
    }

    /// Whether it is still what was taken: a clone can be killed by another process.
    pub fn is_whole(&self, scene: &Scene) -> bool {
        let first = scene.areas.first().map_or(0, |area| area.range.start);
        !self.is_clone || self.read_some(first, &mut [0]) != Err(Errno::ESRCH)
    }

    /// Leaves out of the scene what was never written to, if that is not done: with a clone there is
    /// time for it when the target goes on.
    pub fn settle(&mut self, scene: &mut Scene) {
        let [areas, there] = std::mem::take(&mut self.early);
        // What was copied in the stop lies in no such mapping.
        let early = self.copies.iter_mut().filter(|(at, _)| is_within(&(*at..*at + 1), &areas));
        clear_gone(early, &there);
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

    /// Copies the areas that are wanted, as far as they were written to; `step` is what tests call it.
    fn copy(
        &mut self,
        scene: &mut Scene,
        presence: &Presence,
        step: &'static str,
        is_wanted: impl Fn(&Area) -> bool,
    ) -> Result<(), SnapshotError> {
        let cut = |area: Area| if is_wanted(&area) { area.written(presence) } else { vec![area] };
        scene.areas = std::mem::take(&mut scene.areas).into_iter().flat_map(cut).collect();
        let areas: Vec<_> = scene.areas.iter().filter(|area| is_wanted(area)).collect();
        if presence.is_late() {
            return self.out_of_time();
        }
        let bytes = areas.iter().map(|area| area.range.end - area.range.start).sum();
        let available = available_memory();
        if bytes > available {
            return Err(SnapshotError::TooLarge { bytes, available });
        }
        for area in areas {
            let length = usize::try_from(area.range.end - area.range.start).unwrap_or(0);
            let mut copy = vec![0; length];
            for (number, piece) in (0_u64..).zip(copy.chunks_mut(PIECE)) {
                self.check_time()?;
                if fault::is_spent(step) {
                    return self.out_of_time();
                }
                self.read_from(area.range.start + number * PIECE as u64, piece);
            }
            self.copies.push((area.range.start, copy));
        }
        self.copies.sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// Takes what was copied early, and divides areas into what it has, and what is still to be copied; answers the
    /// mappings of which it has all that is there.
    fn take_early(
        &mut self,
        early: &mut EarlyCopy,
        scene: &mut Scene,
    ) -> Result<Vec<Range<u64>>, SnapshotError> {
        let mapped = maps::parse(&scene.maps).map_err(|_| SnapshotError::Maps(Errno::EPROTO))?;
        let mapped = mapped.iter().map(|m| m.range.start.get()..m.range.end.get());
        let finished = early.finish(&mapped.collect::<Vec<_>>(), self.until)?;
        let areas = std::mem::take(&mut scene.areas).into_iter();
        let divide = |area: Area| {
            let (there, outside) = finished.divide(&area.range);
            let parts = there.into_iter().chain(outside);
            parts.map(|range| Area { range, ..area.clone() }).collect::<Vec<_>>()
        };
        scene.areas = areas.flat_map(divide).collect();
        scene.areas.sort_by_key(|area| area.range.start);
        (self.late, self.unreadable) = (Some(finished.late), finished.unreadable);
        self.copies = finished.copies;
        self.early = [finished.areas.clone(), finished.parts];
        Ok(finished.areas)
    }

    /// Copies what is in no area and says how areas are to be understood.
    fn copy_books(&mut self, books: &[Range<u64>]) {
        let mut from = 0;
        for book in books.iter().filter(|book| book.start < book.end) {
            let start = book.start.max(from);
            let end = book.end.min(start.saturating_add(MOST_BOOKS));
            for gap in self.not_copied(start..end) {
                let mut copy = vec![0; usize::try_from(gap.end - gap.start).unwrap_or(0)];
                if self.read_some(gap.start, &mut copy) == Ok(copy.len()) {
                    self.copies.push((gap.start, copy));
                }
            }
            self.copies.sort_by_key(|(at, _)| *at);
            from = from.max(book.end);
        }
    }

    /// The parts of a range that have no copy.
    fn not_copied(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut from) = (Vec::new(), range.start);
        for copied in self.copies_in(&range) {
            if from < copied.start {
                gaps.push(from..copied.start);
            }
            from = copied.end;
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
        gaps
    }

    /// The copy that has an address, and where in it that is.
    fn copied(&self, at: u64) -> Option<&[u8]> {
        let index = self.copies.partition_point(|(start, _)| *start <= at);
        let (start, bytes) = self.copies.get(index.checked_sub(1)?)?;
        bytes.get(usize::try_from(at - start).ok()?..).filter(|rest| !rest.is_empty())
    }

    /// Whether it can be read once the target goes on.
    pub fn is_kept(&self) -> bool {
        self.is_clone || !self.copies.is_empty()
    }

    /// The clone, if there is one.
    pub fn clone_process(&self) -> Option<Process> {
        self.is_clone.then(|| Process::open(self.reader).ok()).flatten()
    }

    /// What was copied of a range; ascending.
    pub fn copies_in(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let end = |(at, bytes): &(u64, Vec<u8>)| at + bytes.len() as u64;
        let first = self.copies.partition_point(|copy| end(copy) <= range.start);
        let own = self.copies[first..].iter().take_while(|(at, _)| *at < range.end);
        let parts = own.map(|copy| copy.0.max(range.start)..end(copy).min(range.end));
        parts.filter(|part| part.start < part.end).collect()
    }

    /// Fills `buffer` from the address as far as that can be read, in parts from copies and from where the rest
    /// is kept; answers how many bytes those are. What was not copied and is no clone's is as it is now.
    pub fn read_parts(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let rest = &mut buffer[done..];
            let read = match self.copied(from) {
                Some(bytes) => {
                    let length = bytes.len().min(rest.len());
                    rest[..length].copy_from_slice(&bytes[..length]);
                    length
                }
                None => {
                    let next = self.copies.partition_point(|(start, _)| *start <= from);
                    let room = self.copies.get(next).map_or(u64::MAX, |(start, _)| start - from);
                    let length = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
                    self.read_some(from, &mut rest[..length]).unwrap_or(0)
                }
            };
            if read == 0 {
                break;
            }
            done += read;
        }
        done
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
        if !self.is_clone && !self.copies.is_empty() {
            // Of a copy no part is as it is now.
            let done = self.read_parts(at, buffer);
            self.unreadable += u64::from(done < buffer.len());
            return buffer[done..].fill(0);
        }
        self.is_late |= self.until.is_some_and(|until| Instant::now() >= until);
        if self.is_late {
            return buffer.fill(0);
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

    pub(super) fn read_some(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
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
    /// Lets go of a clone; answers how long the target was stopped for that.
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

/// Whether all of it is in one of these.
fn is_within(range: &Range<u64>, areas: &[Range<u64>]) -> bool {
    let index = areas.partition_point(|area| area.start <= range.start);
    index.checked_sub(1).is_some_and(|index| range.end <= areas[index].end)
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
