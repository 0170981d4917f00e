//! The memory of a core.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use nix::errno::Errno;

use heapattach_process::{core_file::CoreFile, proc::maps};

use crate::{Memory, Region, regions, stats::Amount};

/// What a core has, and which of its pages are not zero: that is all that it tells of what was in memory.
#[derive(Debug)]
pub struct CoreMemory {
    core: Arc<CoreFile>,
    regions: Vec<Region>,
    /// By region, ascending.
    written: Vec<Vec<Range<u64>>>,
    /// Bytes that were looked at.
    read: Arc<AtomicU64>,
}

impl CoreMemory {
    /// Looks at each page that the core has; the bytes that are read, now and later, are counted in `read`.
    ///
    /// # Errors
    /// When its map makes no sense.
    pub fn of(core: Arc<CoreFile>, read: &Arc<AtomicU64>) -> Result<Self, Errno> {
        let maps = maps::parse(core.maps()).map_err(|_| Errno::EPROTO)?;
        let regions = regions(&maps);
        let written = regions.iter().map(|region| {
            let parts = core.written(&region.range);
            let bytes = parts.iter().map(|part| part.end - part.start).sum();
            read.fetch_add(bytes, Relaxed);
            parts
        });
        let written = written.collect();
        Ok(Self { core, regions, written, read: Arc::clone(read) })
    }

    /// Its map; what the core does not have cannot be read.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// By region: bytes of pages that are not zero.
    pub fn usage(&self) -> Vec<Amount> {
        let bytes = |parts: &Vec<Range<u64>>| parts.iter().map(|part| part.end - part.start).sum();
        let amount = |parts| Amount { resident: bytes(parts), swapped: 0 };
        self.written.iter().map(amount).collect()
    }

    /// The parts of a range that are not zero.
    pub fn written(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.regions.partition_point(|region| region.range.end <= range.start);
        let regions = self.regions.iter().zip(&self.written).skip(first);
        let regions = regions.take_while(|(region, _)| region.range.start < range.end);
        let mut parts = Vec::new();
        for (_, written) in regions {
            let first = written.partition_point(|part| part.end <= range.start);
            let own = written[first..].iter().take_while(|part| part.start < range.end);
            parts.extend(own.map(|part| part.start.max(range.start)..part.end.min(range.end)));
        }
        parts
    }
}

impl Memory for CoreMemory {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let read = self.core.read(at, buffer);
        self.read.fetch_add(read as u64, Relaxed);
        read
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.written(range)
    }
}
