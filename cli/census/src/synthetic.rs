//! Memory for tests, written word by word. No interface: it changes as tests need it.

use std::{collections::BTreeMap, ops::Range};

use crate::{Memory, Moment, Region, RegionKind, Thread};

/// A page of it.
const PAGE: u64 = 4096;

/// Memory that was written to page by page, and a map of it.
#[derive(Clone, Debug, Default)]
pub struct Synthetic {
    /// The map.
    pub regions: Vec<Region>,
    /// The threads.
    pub threads: Vec<Thread>,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Synthetic {
    /// Maps private memory.
    pub fn map(&mut self, range: Range<u64>) {
        self.region(range, RegionKind::Anonymous, "");
    }

    /// Maps writable memory of a kind.
    pub fn region(&mut self, range: Range<u64>, kind: RegionKind, label: &str) {
        self.regions.push(Region {
            range,
            kind,
            readable: true,
            writable: true,
            executable: false,
            shared: false,
            file_offset: 0,
            label: label.to_owned(),
        });
    }

    /// Writes a word.
    pub fn write(&mut self, at: u64, word: u64) {
        self.write_bytes(at, &word.to_le_bytes());
    }

    /// Writes bytes.
    pub fn write_bytes(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![0; 4096]);
            let offset = usize::try_from(at % PAGE).unwrap_or(0);
            page[offset] = *byte;
        }
    }

    /// Every address that was written to, page by page.
    pub fn pages(&mut self) -> impl Iterator<Item = (u64, &mut Vec<u8>)> {
        self.pages.iter_mut().map(|(page, bytes)| (page * PAGE, bytes))
    }

    /// The moment.
    pub fn moment(&self) -> Moment<'_> {
        Moment::new(self, self.regions.clone(), self.threads.clone())
    }
}

impl Memory for Synthetic {
    fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            if !self.regions.iter().any(|region| region.range.contains(&from)) {
                break;
            }
            let offset = usize::try_from(from % PAGE).unwrap_or(0);
            let length = (4096 - offset).min(buffer.len() - done);
            let to = &mut buffer[done..done + length];
            match self.pages.get(&(from / PAGE)) {
                Some(page) => to.copy_from_slice(&page[offset..offset + length]),
                None => to.fill(0),
            }
            done += length;
        }
        done
    }

    fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let pages = self.pages.range(range.start / PAGE..range.end.div_ceil(PAGE));
        let mut parts: Vec<Range<u64>> = Vec::new();
        for page in pages.map(|(page, _)| *page * PAGE) {
            match parts.last_mut() {
                Some(last) if last.end == page => last.end = page + PAGE,
                _ => parts.push(page..page + PAGE),
            }
        }
        parts
    }
}
