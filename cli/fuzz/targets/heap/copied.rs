//! A copy of a process's memory, to be changed word by word. It knows nothing of heaps.

use std::ops::Range;

use heapattach_census::{Live, Memory, Moment, Region, Thread};

/// All of it that is readable and was touched; what was not is zero.
#[derive(Default)]
pub struct Copied {
    /// The map, ascending.
    pub regions: Vec<Region>,
    threads: Vec<Thread>,
    /// Ascending; no two overlap.
    parts: Vec<(u64, Vec<u8>)>,
}

impl Copied {
    pub fn of(live: &Live, regions: Vec<Region>, threads: Vec<Thread>) -> Self {
        let mut parts = Vec::new();
        for region in regions.iter().filter(|region| region.readable) {
            let there = match region.is_private_memory() {
                true => live.present(&region.range),
                false => vec![region.range.clone()],
            };
            for part in there {
                let mut bytes = vec![0; length(part.end - part.start)];
                let read = live.read(part.start, &mut bytes);
                bytes.truncate(read);
                parts.push((part.start, bytes));
            }
        }
        parts.sort_by_key(|(at, _)| *at);
        Self { regions, threads, parts }
    }

    pub fn moment(&self) -> Moment<'_> {
        Moment::new(self, self.regions.clone(), self.threads.clone())
    }

    pub fn parts(&self) -> &[(u64, Vec<u8>)] {
        &self.parts
    }

    pub fn write(&mut self, at: u64, word: u64) {
        let Some(index) = self.before(at) else { return };
        let (start, bytes) = &mut self.parts[index];
        let offset = length(at - *start);
        if let Some(to) = bytes.get_mut(offset..offset.saturating_add(8)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The last part that begins there or before.
    fn before(&self, at: u64) -> Option<usize> {
        self.parts.partition_point(|(start, _)| *start <= at).checked_sub(1)
    }
}

impl Memory for Copied {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let Some(from) = at.checked_add(done as u64) else { break };
            let rest = &mut buffer[done..];
            let part = self.before(from).map(|index| &self.parts[index]);
            let own = part.and_then(|(start, bytes)| bytes.get(length(from - start)..));
            if let Some(own) = own.filter(|own| !own.is_empty()) {
                let many = own.len().min(rest.len());
                rest[..many].copy_from_slice(&own[..many]);
                done += many;
                continue;
            }
            let region = self.regions.partition_point(|region| region.range.end <= from);
            let region = self.regions.get(region).filter(|region| region.range.contains(&from));
            let Some(region) = region else { break };
            let next = self.parts.partition_point(|(start, _)| *start <= from);
            let next = self.parts.get(next).map_or(u64::MAX, |(start, _)| *start);
            let many = length(region.range.end.min(next) - from).min(rest.len());
            rest[..many].fill(0);
            done += many;
        }
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.before(range.start).unwrap_or(0);
        let parts = self.parts[first..].iter().take_while(|(start, _)| *start < range.end);
        let parts = parts.map(|(start, bytes)| *start..*start + bytes.len() as u64);
        let cut = parts.map(|part| part.start.max(range.start)..part.end.min(range.end));
        cut.filter(|part| part.start < part.end).collect()
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
