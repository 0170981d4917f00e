//! The moment of a process by a copy that was made while it ran, for the most part.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_census::{Live, Memory, RegionKind};
use heapattach_injector::{
    moment::{self, Area, EarlyCopy, EarlyError, Finished, unseen_writes},
    target::{Stopped, Target},
};
use heapattach_process::{presence::Presence, proc::Process};
use heapattach_report::{CensusReport, LookMethod, Status, micros};
use heapattach_text::error_chain::with_causes;

use super::{
    Before, Failed, HeapOptions, cold, conclude, failed, resident, seen::Seen, source::Source,
    walk_memory,
};
use crate::check::{
    options::Snapshot,
    snapshot_choice::{self, Load, Means},
};

/// Memory of the moment.
struct Copied {
    finished: Finished,
    /// Private memory that is not watched, as far as the process has written to it.
    rest: Vec<(u64, Vec<u8>)>,
    /// What is no copy: files and shared memory, as they are now.
    live: Live,
}

/// Copies, stops, and looks.
pub(super) fn take(
    target: &Target,
    options: &HeapOptions,
    before: &Before<'_>,
    report: &mut CensusReport,
) -> Result<(), Failed> {
    let process = &target.process;
    let means = Means { clone: true, not_early: unseen_writes(process) };
    let load = Load::of(process);
    snapshot_choice::choose(Snapshot::Early, &load, options.max_pause, &means)
        .map_err(|error| (Status::Refused, format!("{error} (target: untouched)")))?;
    let not_copied = |error: EarlyError| {
        let why = with_causes(&error);
        (Status::Failed, format!("its memory cannot be copied early: {why} (target: untouched)"))
    };
    let (writes, stopped) = cold::watch(target)?;
    report.moment.stopped_us += micros(stopped);
    let mut early = EarlyCopy::new(process, writes, stopped);
    early.copy(process, load.own_room(), &|| before.1.is_wanted()).map_err(not_copied)?;
    let until = Instant::now() + options.max_pause;
    let look = |stop: &Stopped<'_>| {
        let wants_scene = options.wants_scene(|| resident(process));
        let mut seen =
            Seen::of(stop, wants_scene).map_err(|error| (Status::Failed, error))?.after(before);
        let mapped: Vec<_> = seen.regions.iter().map(|region| region.range.clone()).collect();
        let finished = early.finish(&mapped, Some(until)).map_err(not_copied)?;
        seen.count_copied(&early, &finished);
        let copied = Copied::of(process, finished, &seen)?;
        Ok((seen, copied, process.read("maps").unwrap_or_default()))
    };
    let (looked, stopped) = moment::stop(target, look).map_err(|error| failed(error.into()))?;
    report.moment.stopped_us += micros(stopped);
    report.moment.method = Some(LookMethod::Early);
    drop(early);
    if let Some(why) = unseen_writes(process) {
        let why = format!("its memory may have been written unseen while it was copied: {why}");
        return Err((Status::Refused, format!("{why}; use --snapshot fork (target: untouched)")));
    }
    let (seen, mut copied, maps) = looked?;
    copied.finished.clear_gone();
    report.moment.threads = seen.threads.len() as u64;
    let written = |area: Area| copied.written(area);
    let source = Source::Passed(process, &maps);
    let walked = walk_memory(source, &copied, &written, &seen, options, Duration::MAX);
    conclude(&seen, walked, report);
    Ok(())
}

impl Copied {
    /// In the stop.
    fn of(process: &Process, finished: Finished, seen: &Seen) -> Result<Self, Failed> {
        let unread = |errno: nix::errno::Errno| {
            let why = format!("its memory cannot be read: {}", errno.desc());
            (Status::Failed, format!("{why} (target: untouched)"))
        };
        let live = Live::open(process).map_err(unread)?.counting(&seen.read);
        let presence = Presence::of(process);
        let mut rest = Vec::new();
        for region in &seen.regions {
            if region.shared || !region.readable || region.kind == RegionKind::Kernel {
                continue;
            }
            let (_, outside) = finished.divide(&region.range);
            for part in outside.iter().flat_map(|part| presence.written(part)) {
                let mut bytes = vec![0; usize::try_from(part.end - part.start).unwrap_or(0)];
                live.read(part.start, &mut bytes);
                rest.push((part.start, bytes));
            }
        }
        Ok(Self { finished, rest, live })
    }

    /// The bytes from an address on that were copied.
    fn copied(&self, at: u64) -> Option<&[u8]> {
        [&self.finished.copies, &self.rest].into_iter().find_map(|copies| {
            let index = copies.partition_point(|(start, _)| *start <= at).checked_sub(1)?;
            let (start, bytes) = copies.get(index)?;
            bytes.get(usize::try_from(at - start).ok()?..).filter(|rest| !rest.is_empty())
        })
    }

    /// Where the next copy begins.
    fn next(&self, at: u64) -> u64 {
        let next = |copies: &[(u64, Vec<u8>)]| {
            let index = copies.partition_point(|(start, _)| *start <= at);
            copies.get(index).map_or(u64::MAX, |(start, _)| *start)
        };
        next(&self.finished.copies).min(next(&self.rest))
    }

    /// The watched mapping that an address is in.
    fn area(&self, at: u64) -> Option<&Range<u64>> {
        let index = self.finished.areas.partition_point(|area| area.end <= at);
        self.finished.areas.get(index).filter(|area| area.contains(&at))
    }

    fn written(&self, area: Area) -> Vec<Area> {
        if self.area(area.range.start).is_some() || !area.is_shared() {
            let parts = self.present(&area.range).into_iter();
            return parts.map(|range| Area { range, ..area.clone() }).collect();
        }
        vec![area]
    }
}

impl Memory for Copied {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let rest = &mut buffer[done..];
            let until = |end: u64| usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
            let read = match (self.copied(from), self.area(from)) {
                (Some(bytes), _) => {
                    let length = bytes.len().min(rest.len());
                    rest[..length].copy_from_slice(&bytes[..length]);
                    length
                }
                // Nothing was there.
                (None, Some(area)) => {
                    let length = until(area.end.min(self.next(from))).min(rest.len());
                    rest[..length].fill(0);
                    length
                }
                (None, None) => {
                    let length = until(self.next(from)).min(rest.len());
                    self.live.read(from, &mut rest[..length])
                }
            };
            if read == 0 {
                break;
            }
            done += read;
        }
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut parts, _) = self.finished.divide(range);
        let rest = self.rest.iter().map(|(at, bytes)| *at..*at + bytes.len() as u64);
        let rest = rest.map(|own| own.start.max(range.start)..own.end.min(range.end));
        parts.extend(rest.filter(|part| part.start < part.end));
        parts.sort_by_key(|part| part.start);
        parts
    }

    fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.finished.swapped(range)
    }
}
