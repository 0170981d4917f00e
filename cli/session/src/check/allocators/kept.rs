//! Memory of a moment once the target goes on, as walkers look at it.

use std::ops::Range;

use heapattach_census::{Memory, Region, RegionKind, Thread};
use heapattach_injector::moment::{Image, Standing};
use heapattach_process::{presence::Presence, proc::Process};

/// A thread of the moment.
pub(super) fn thread(standing: &Standing) -> Thread {
    let Standing { tid, pointer, stack, code, call, words, .. } = *standing;
    let call = call.and_then(|call| u64::try_from(call).ok());
    Thread { tid, pointer, stack, code, call, registers: words.to_vec() }
}

/// Memory of a moment once the target goes on. Of files only what the target has at hand is read: a disk can take
/// for ever to give the rest, and the target waits for the end of the check.
pub(super) struct Kept<'a, 't> {
    image: &'a Image<'t>,
    /// What the clone has, if there is one.
    presence: Option<Presence>,
    /// Mapped files, ascending, with the parts of each that can be read.
    files: Vec<(Range<u64>, Vec<Range<u64>>)>,
}

impl<'a, 't> Kept<'a, 't> {
    pub(super) fn of(image: &'a Image<'t>, pid: i32, regions: &[Region]) -> Self {
        let presence = image.clone_process().as_ref().map(Presence::of);
        let target = Process::open(pid).ok().map(|target| Presence::of(&target));
        let files = regions.iter().filter(|region| region.kind == RegionKind::File);
        let files = files.map(|region| {
            let range = &region.range;
            let mut parts = target.as_ref().map_or_else(Vec::new, |own| own.touched(range));
            // What the target has written is no file's any more.
            parts.extend(target.iter().flat_map(|own| own.written(range)));
            parts.extend(presence.iter().flat_map(|own| own.written(range)));
            parts.extend(image.copies_in(range));
            (range.clone(), merged(parts))
        });
        let files = files.collect();
        Self { image, presence, files }
    }

    /// Where reading has to end that begins there.
    fn end(&self, at: u64) -> u64 {
        let next = self.files.partition_point(|(range, _)| range.end <= at);
        match self.files.get(next) {
            Some((range, parts)) if range.contains(&at) => {
                let part = parts.partition_point(|part| part.end <= at);
                let part = parts.get(part).filter(|part| part.contains(&at));
                part.map_or(at, |part| part.end)
            }
            Some((range, _)) => range.start,
            None => u64::MAX,
        }
    }
}

impl Memory for Kept<'_, '_> {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let room = usize::try_from(self.end(from) - from).unwrap_or(usize::MAX);
            let length = room.min(buffer.len() - done);
            let read = self.image.read_parts(from, &mut buffer[done..done + length]);
            done += read;
            if length == 0 || read < length {
                break;
            }
        }
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts = self.image.copies_in(range);
        if let Some(presence) = &self.presence {
            parts.extend(presence.there(range));
        }
        merged(parts)
    }
}

/// Ascending, and no two overlap or touch.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
