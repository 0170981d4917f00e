//! A copy of memory that is made while the process runs: of all its pages first, then again and again of those that
//! were written meanwhile. Few are left then for the stop in which the moment is.
//!
//! ```text
//! short stop: writes are watched -> all is copied -> what was written is copied again, as long as it becomes less
//! -> stop: what was written since is copied a last time
//! ```

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

use super::finished_copy::Finished;
use crate::home::PAGE;
use heapattach_process::{
    page_writes::{PageWrites, Pages, WritesError, watchable},
    proc::Process,
    ranges::{joined, minus},
};

/// So much is copied at once.
const PIECE: usize = 1 << 20;
/// What is left for the stop may be this much: a millisecond of copying.
const LITTLE: u64 = 1 << 20;
/// What came meanwhile is left for the stop if it is less.
const MUCH: u64 = 4 << 20;
/// What was written is copied again so often, at most.
const ROUNDS: usize = 12;
/// More pages that cannot be read are not kept in mind.
const MOST_UNREAD: usize = 1 << 16;

/// Memory that is copied beforehand.
#[derive(Debug)]
pub struct EarlyCopy {
    reader: Pid,
    writes: PageWrites,
    /// What was copied, by its address; ascending, and whole pages.
    parts: Vec<(u64, Vec<u8>)>,
    /// What was there after that.
    before: Vec<Pages>,
    /// What could not be read: a mapping may be closed for a while.
    unread: Vec<Range<u64>>,
    /// How long the target was stopped until its writes were watched.
    pub stopped: Duration,
}

/// Why there is no such copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EarlyError {
    /// What was written is not known.
    #[error(transparent)]
    Writes(#[from] WritesError),
    /// Our own memory.
    #[error("{bytes} bytes are to be copied, and {room} are to be had")]
    NoRoom {
        /// What is wanted.
        bytes: u64,
        /// What there is.
        room: u64,
    },
    /// The stop may last no longer.
    #[error("what was written meanwhile is too much to be copied in the stop")]
    OutOfTime,
    /// It is not wanted any more.
    #[error("given up: the result is not wanted any more")]
    GivenUp,
}

/// Whether to go on; asked before each piece.
type GoOn<'g> = dyn Fn() -> Result<(), EarlyError> + 'g;

/// As long as there is time.
fn until(end: Option<Instant>) -> impl Fn() -> Result<(), EarlyError> {
    move || match end {
        Some(end) if Instant::now() >= end => Err(EarlyError::OutOfTime),
        _ => Ok(()),
    }
}

impl EarlyCopy {
    /// Nothing is copied yet; writes of the process are watched, for which it was `stopped`.
    pub fn new(process: &Process, writes: PageWrites, stopped: Duration) -> Self {
        process.find_voice();
        Self {
            reader: Pid::from_raw(process.voice()),
            writes,
            parts: Vec::new(),
            before: Vec::new(),
            unread: Vec::new(),
            stopped,
        }
    }

    /// What is watched, and will be in the copy as far as it is there.
    pub fn areas(&self) -> &[Range<u64>] {
        self.writes.areas()
    }

    /// Copies while the process runs, at most `room` bytes, as long as `is_wanted`.
    ///
    /// # Errors
    /// When there is not so much room, it cannot be told what was written, or it is not wanted any more.
    pub fn copy(
        &mut self,
        process: &Process,
        room: u64,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), EarlyError> {
        let go_on = || if is_wanted() { Ok(()) } else { Err(EarlyError::GivenUp) };
        let all = self.writes.there()?;
        let bytes = all.iter().map(|pages| length(&pages.range)).sum();
        if bytes > room {
            return Err(EarlyError::NoRoom { bytes, room });
        }
        let ranges = joined(all.iter().map(|pages| pages.range.clone()));
        self.copy_fresh(&ranges, &go_on)?;
        let mut before = u64::MAX;
        for _ in 0..ROUNDS {
            let came = self.watch_what_came(process)?;
            let written = self.writes.written_again()?;
            let bytes = came.iter().chain(&written).map(length).sum();
            let fresh = [&came, &written].into_iter().flat_map(|all| self.missing(all));
            let wanted = self.bytes() + fresh.map(|range| length(&range)).sum::<u64>();
            if wanted > room {
                return Err(EarlyError::NoRoom { bytes: wanted, room });
            }
            self.update(&came, &go_on)?;
            self.update(&written, &go_on)?;
            // Where it does not become less it will not.
            if bytes <= LITTLE || bytes > before {
                break;
            }
            before = bytes;
        }
        self.before = self.writes.there()?;
        Ok(())
    }

    /// Watches memory that came meanwhile, a heap that grows, if it is much: the kernel never joins it with what was
    /// there, so that each time there is a mapping more. Answers what is to be copied of it.
    fn watch_what_came(&mut self, process: &Process) -> Result<Vec<Range<u64>>, EarlyError> {
        let refused = |errno| WritesError::Refused { call: "reading its map", errno };
        let came = minus(&watchable(process).map_err(refused)?, self.writes.areas());
        match came.iter().map(length).sum::<u64>() {
            MUCH.. => Ok(self.writes.watch_more(&came)?),
            _ => Ok(Vec::new()),
        }
    }

    /// In the stop, whose memory map is `mapped`: what was written since is copied a last time. Answers the parts that
    /// are there, each within one of the copies, and the copies. Writes are watched until this goes, which takes long:
    /// when the target goes on.
    ///
    /// # Errors
    /// When it takes longer than to its `end`, or the kernel does not tell.
    pub fn finish(
        &mut self,
        mapped: &[Range<u64>],
        end: Option<Instant>,
    ) -> Result<Finished, EarlyError> {
        let go_on = until(end);
        let there = self.writes.there_since(&self.before, mapped)?;
        let written = there.iter().filter(|pages| pages.is_written);
        let written = joined(written.map(|pages| pages.range.clone()));
        self.update(&written, &go_on)?;
        let pages = there;
        let there = joined(pages.iter().map(|pages| pages.range.clone()));
        let unread = of_these(std::mem::take(&mut self.unread), &there);
        self.update(&unread, &go_on)?;
        self.copy_fresh(&self.missing(&there), &go_on)?;
        let parts = there.iter().flat_map(|range| self.within(range)).map(|(_, part)| part);
        let parts = parts.collect();
        let late = written.iter().chain(&unread).map(length).sum();
        let unreadable = self.unread.iter().map(length).sum::<u64>() / PAGE;
        let areas = self.writes.areas().to_vec();
        let copies = std::mem::take(&mut self.parts);
        Ok(Finished { areas, parts, pages, copies, late, unreadable })
    }

    /// Of a range: bytes in memory, and in swap.
    pub fn amount(&self, finished: &Finished, range: &Range<u64>) -> (u64, u64) {
        let (_, outside) = finished.divide(range);
        let others = outside.iter().flat_map(|part| self.writes.there_besides(part));
        finished.amount(range, others.flatten())
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Copies these again where there is a copy, and for the first time where there is none.
    fn update(&mut self, ranges: &[Range<u64>], go_on: &GoOn<'_>) -> Result<(), EarlyError> {
        for range in ranges {
            for (index, part) in self.within(range) {
                let (at, bytes) = &mut self.parts[index];
                let from = usize::try_from(part.start - *at).unwrap_or(0);
                let to = usize::try_from(part.end - *at).unwrap_or(0);
                let Some(bytes) = bytes.get_mut(from..to) else { continue };
                read(self.reader, part.start, bytes, go_on, &mut self.unread)?;
            }
        }
        let fresh = self.missing(ranges);
        self.copy_fresh(&fresh, go_on)
    }

    /// Copies what has no copy yet.
    fn copy_fresh(&mut self, ranges: &[Range<u64>], go_on: &GoOn<'_>) -> Result<(), EarlyError> {
        if ranges.is_empty() {
            return Ok(());
        }
        for range in ranges {
            let mut bytes = vec![0; usize::try_from(length(range)).unwrap_or(0)];
            read(self.reader, range.start, &mut bytes, go_on, &mut self.unread)?;
            self.parts.push((range.start, bytes));
        }
        self.parts.sort_by_key(|(at, _)| *at);
        Ok(())
    }

    /// The parts of a range that have a copy, and which.
    fn within(&self, range: &Range<u64>) -> Vec<(usize, Range<u64>)> {
        let first =
            self.parts.partition_point(|(at, bytes)| at + bytes.len() as u64 <= range.start);
        let own = self.parts.iter().enumerate().skip(first);
        let own = own.take_while(|(_, (at, _))| *at < range.end);
        own.map(|(index, (at, bytes))| {
            let end = at + bytes.len() as u64;
            (index, (*at).max(range.start)..end.min(range.end))
        })
        .collect()
    }

    /// The parts of these ranges that have none.
    fn missing(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        for range in ranges {
            let mut from = range.start;
            for (_, part) in self.within(range) {
                if from < part.start {
                    all.push(from..part.start);
                }
                from = part.end;
            }
            if from < range.end {
                all.push(from..range.end);
            }
        }
        all
    }
}

/// Fills a buffer from memory of the process. What cannot be read is zero, and noted: it went meanwhile, or may not be
/// read for a while.
fn read(
    reader: Pid,
    at: u64,
    buffer: &mut [u8],
    go_on: &GoOn<'_>,
    unread: &mut Vec<Range<u64>>,
) -> Result<(), EarlyError> {
    let mut done = 0;
    while done < buffer.len() {
        go_on()?;
        let from = at.saturating_add(done as u64);
        let piece = PIECE.min(buffer.len() - done);
        let Ok(base) = usize::try_from(from) else { break };
        let own = &mut buffer[done..done + piece];
        let remote = [RemoteIoVec { base, len: piece }];
        match process_vm_readv(reader, &mut [IoSliceMut::new(own)], &remote) {
            Ok(read @ 1..) => done += read,
            Err(Errno::ESRCH) => {
                return Err(
                    WritesError::Refused { call: "process_vm_readv", errno: Errno::ESRCH }.into()
                );
            }
            _ if unread.len() >= MOST_UNREAD => return Err(WritesError::TooMuch.into()),
            _ => {
                let skipped = PAGE - from % PAGE;
                unread.push(from..from + skipped);
                let skipped = usize::try_from(skipped).unwrap_or(piece).min(piece);
                own[..skipped].fill(0);
                done += skipped;
            }
        }
    }
    Ok(())
}

/// Those pages that are there; each once, ascending.
fn of_these(mut pages: Vec<Range<u64>>, there: &[Range<u64>]) -> Vec<Range<u64>> {
    pages.sort_by_key(|page| page.start);
    pages.dedup();
    pages.retain(|page| {
        let index = there.partition_point(|range| range.end <= page.start);
        there.get(index).is_some_and(|range| range.start <= page.start)
    });
    pages
}

fn length(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_is_not_wanted_any_more_is_copied_no_further() {
        let from = vec![7_u8; 6 * PIECE];
        let (mut to, mut unread) = (vec![0_u8; 6 * PIECE], Vec::new());
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() > 3 { Err(EarlyError::GivenUp) } else { Ok(()) }
        };
        let given_up = read(Pid::this(), from.as_ptr() as u64, &mut to, &go_on, &mut unread);
        assert_eq!(given_up, Err(EarlyError::GivenUp));
        assert!(
            to[..3 * PIECE] == from[..3 * PIECE] && to[3 * PIECE..].iter().all(|&byte| byte == 0)
        );
    }

    #[test]
    fn pages_that_could_not_be_read_are_tried_again_once_if_they_are_there() {
        let page = |number: u64| number * PAGE..(number + 1) * PAGE;
        let there = [PAGE..3 * PAGE, 5 * PAGE..6 * PAGE];
        let pages = vec![page(5), page(1), page(3), page(5), page(2), page(9), page(0)];
        assert_eq!(of_these(pages, &there), [page(1), page(2), page(5)]);
    }
}
