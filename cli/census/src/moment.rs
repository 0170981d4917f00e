//! All of a process at one instant, as walkers look at it.

use std::{
    cell::{Cell, OnceCell, RefCell},
    ops::Range,
};

use crate::{
    Memory, Region, RegionKind,
    pages::{PAGE, Pages},
};

/// Of pieces that are wanted one after the other so many are read in one go.
const AHEAD: u64 = 16;
/// No more is read in one go.
const MOST_BYTES: usize = 64 << 20;
/// Of regions of more pages than this the kernel is asked for those that are wanted, until that has cost as much as to ask
/// for all. To ask once costs as much as so many pages.
const LARGE: u64 = 1024;
const ONCE: u64 = 40;
/// Above are no addresses of a program.
const ADDRESSES: u64 = 1 << 56;

/// A thread of the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// What its thread-local variables lie below (fs_base).
    pub pointer: u64,
    /// Where its stack ends.
    pub stack: u64,
    /// Where it goes on.
    pub code: u64,
    /// The system call that it is in, if it is.
    pub call: Option<u64>,
    /// General registers, in any order.
    pub registers: Vec<u64>,
}

/// A module that is loaded: an executable or a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Its path.
    pub path: String,
    /// From its first to its last byte in memory.
    pub range: Range<u64>,
    /// Its variables: writable, those that begin as zero too. Ascending.
    pub data: Vec<Range<u64>>,
}

/// The moment.
pub struct Moment<'m> {
    memory: &'m dyn Memory,
    regions: Vec<Region>,
    threads: Vec<Thread>,
    images: Vec<Image>,
    /// By region: the parts that have anything in them.
    present: Vec<OnceCell<Vec<Range<u64>>>>,
    /// By region: what it has cost to ask for small parts of it before those were known, in pages.
    few: Vec<Cell<u64>>,
    pages: RefCell<Pages>,
}

impl<'m> Moment<'m> {
    /// Of regions in ascending order.
    pub fn new(memory: &'m dyn Memory, mut regions: Vec<Region>, threads: Vec<Thread>) -> Self {
        regions.retain(|region| region.range.start < region.range.end);
        regions.sort_by_key(|region| region.range.start);
        let images = images(&regions);
        let present = regions.iter().map(|_| OnceCell::new()).collect();
        let few = regions.iter().map(|_| Cell::new(0)).collect();
        let pages = RefCell::new(Pages::new());
        Self { memory, regions, threads, images, present, few, pages }
    }

    /// The memory map, ascending.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The threads.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The modules.
    pub fn images(&self) -> &[Image] {
        &self.images
    }

    /// The region that has an address.
    pub fn region(&self, at: u64) -> Option<&Region> {
        self.regions.get(self.index(at)?)
    }

    fn index(&self, at: u64) -> Option<usize> {
        let index = self.regions.partition_point(|region| region.range.end <= at);
        let region = self.regions.get(index)?;
        region.range.contains(&at).then_some(index)
    }

    /// The parts of a range that have anything in them; where memory is not private and anonymous, all
    /// that is mapped and readable.
    pub fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        let first = self.regions.partition_point(|region| region.range.end <= range.start);
        for index in first..self.regions.len() {
            if self.regions[index].range.start >= range.end {
                break;
            }
            let wanted = range.start.max(self.regions[index].range.start)
                ..range.end.min(self.regions[index].range.end);
            let of_these = self.is_little_of(index, &wanted).then(|| self.memory.present(&wanted));
            let own = of_these.as_deref().unwrap_or_else(|| self.parts(index));
            let from = own.partition_point(|part| part.end <= range.start);
            for part in own[from..].iter().take_while(|part| part.start < range.end) {
                let part = part.start.max(range.start)..part.end.min(range.end);
                match parts.last_mut() {
                    Some(last) if last.end == part.start => last.end = part.end,
                    _ => parts.push(part),
                }
            }
        }
        parts
    }

    /// The parts of a region that have anything in them.
    fn parts(&self, index: usize) -> &[Range<u64>] {
        let region = &self.regions[index];
        self.present[index].get_or_init(|| match region.readable {
            false => Vec::new(),
            true if is_told(region) => self.memory.present(&region.range),
            true => vec![region.range.clone()],
        })
    }

    /// Whether so little of a large region is wanted, together with what was wanted before, that it does not pay to have
    /// all its parts told.
    fn is_little_of(&self, index: usize, wanted: &Range<u64>) -> bool {
        let (region, few) = (&self.regions[index], &self.few[index]);
        let pages = (region.range.end - region.range.start) / PAGE;
        let is_open = self.present[index].get().is_none() && region.readable && is_told(region);
        let cost = few.get().saturating_add(ONCE + (wanted.end - wanted.start) / PAGE);
        let is_little = is_open && pages > LARGE && cost < pages;
        if is_little {
            few.set(cost);
        }
        is_little
    }

    /// The parts of a range of private memory that are in swap alone.
    pub fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        self.memory.swapped(range)
    }

    /// Fills `buffer` from `at`; what is mapped and was never touched is zero. Answers how many bytes are
    /// mapped from there on, and can be read.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.saturating_add(done as u64);
            let Some(index) = self.index(from).filter(|&index| self.regions[index].readable) else {
                break;
            };
            let rest = self.regions[index].range.end - from;
            let length = usize::try_from(rest).unwrap_or(usize::MAX).min(buffer.len() - done);
            let read = self.read_region(index, from, &mut buffer[done..done + length]);
            done += read;
            if read < length {
                break;
            }
        }
        done
    }

    /// The same within one region.
    fn read_region(&self, index: usize, at: u64, buffer: &mut [u8]) -> usize {
        let end = at + buffer.len() as u64;
        // Of a large region of which a few words are wanted, the kernel need not tell every page.
        let pages = at & !(PAGE - 1)..end.next_multiple_of(PAGE);
        let is_little = pages.end - pages.start <= 2 * PAGE && self.is_little_of(index, &pages);
        let of_these = is_little.then(|| self.memory.present(&pages));
        let parts = of_these.as_deref().unwrap_or_else(|| self.parts(index));
        let mut done = at;
        let first = parts.partition_point(|part| part.end <= at);
        for part in parts[first..].iter().take_while(|part| part.start < end) {
            let (from, to) = (part.start.max(at), part.end.min(end));
            fill(buffer, at, done..from);
            let wanted = &mut buffer[place(from - at)..place(to - at)];
            let read = self.memory.read(from, wanted);
            if read < wanted.len() {
                return place(from - at) + read;
            }
            done = to;
        }
        fill(buffer, at, done..end);
        buffer.len()
    }

    /// Bytes from `at`, all of them or none.
    pub fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        // What is not mapped is not worth a buffer.
        let is_mapped = length <= MOST_BYTES && at < ADDRESSES && self.index(at).is_some();
        let mut bytes = is_mapped.then(|| vec![0; length])?;
        (self.read(at, &mut bytes) == length).then_some(bytes)
    }

    /// Words from `at`, all of them or none.
    pub fn words(&self, at: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(at, count.checked_mul(8)?)?;
        let (words, _) = bytes.as_chunks::<8>();
        Some(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// The word at an address. Pages are kept: asking for neighbours costs little.
    #[inline]
    pub fn word(&self, at: u64) -> Option<u64> {
        match place(at & (PAGE - 1)) + 8 > place(PAGE) {
            true => {
                let mut bytes = [0; 8];
                (self.read(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
            }
            false => self.on_a_page(at).map(|[word]| word),
        }
    }

    /// So many words that follow each other.
    #[inline]
    pub fn these_words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        if place(at & (PAGE - 1)) + N * 8 <= place(PAGE) {
            return self.on_a_page(at);
        }
        let mut words = [0; N];
        for (index, word) in (0..).zip(&mut words) {
            let index: u64 = index;
            *word = self.word(at.checked_add(index * 8)?)?;
        }
        Some(words)
    }

    /// The same where all of them lie on one page.
    #[inline]
    fn on_a_page<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let page = at & !(PAGE - 1);
        if !self.pages.borrow().has(page) {
            self.fetch(page);
        }
        let pages = self.pages.borrow();
        let (words, _) = pages.get(page)?.get(place(at - page)..)?.as_chunks::<8>();
        Some(words.first_chunk::<N>()?.map(u64::from_le_bytes))
    }

    /// Reads a page; where its neighbour was wanted a short while ago, those on its other side too.
    #[cold]
    fn fetch(&self, page: u64) {
        let mut pages = self.pages.borrow_mut();
        let alone = page..page.saturating_add(PAGE);
        let some = self.together(&pages, &alone);
        let mut keep =
            |range: &Range<u64>| pages.keep(range, |bytes| self.read(range.start, bytes));
        // Where not all of it can be read, the page that is wanted may still be.
        if some == alone || !keep(&some) {
            keep(&alone);
        }
    }

    fn together(&self, pages: &Pages, page: &Range<u64>) -> Range<u64> {
        // The kernel is not asked about all of a large region because of what may be wanted, and what is not known to be
        // there is not touched: that would cost page tables.
        let is_known =
            |index: &usize| is_told(&self.regions[*index]) && self.present[*index].get().is_some();
        let Some(index) = self.index(page.start).filter(is_known) else { return page.clone() };
        let (region, ahead) = (&self.regions[index].range, (AHEAD - 1) * PAGE);
        let is_whole = region.start % PAGE == 0 && region.end % PAGE == 0;
        if is_whole && pages.has(page.start.wrapping_sub(PAGE)) {
            page.start..page.end.saturating_add(ahead).min(region.end)
        } else if is_whole && pages.has(page.end) {
            page.start.saturating_sub(ahead).max(region.start)..page.end
        } else {
            page.clone()
        }
    }
}

/// Whether the kernel tells which pages of it have anything in them.
fn is_told(region: &Region) -> bool {
    let kind = !matches!(region.kind, RegionKind::File | RegionKind::Kernel);
    kind && !region.shared && !region.label.starts_with("/anon_hugepage")
}

/// Zeroes a part of a buffer that begins at `at`.
fn fill(buffer: &mut [u8], at: u64, range: Range<u64>) {
    if range.start < range.end {
        buffer[place(range.start - at)..place(range.end - at)].fill(0);
    }
}

/// An offset in a buffer.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Modules: mappings of one file that follow each other, and what is zero at first behind them.
fn images(regions: &[Region]) -> Vec<Image> {
    let mut images: Vec<Image> = Vec::new();
    // Whether the last one may go on. V8 maps a part of its program once more, far behind its heap.
    let mut goes_on = false;
    for region in regions {
        let is_file = region.kind == RegionKind::File && !region.shared;
        let follows = images.last().is_some_and(|image| image.range.end == region.range.start);
        match images.last_mut() {
            // Also what its loader reserved between two segments.
            Some(image)
                if goes_on && is_file && image.path == region.label && region.file_offset > 0 =>
            {
                image.range.end = region.range.end;
            }
            Some(image) if follows && is_bss(region) && !image.data.is_empty() => {
                image.range.end = region.range.end;
            }
            _ if is_file && !region.label.starts_with("/anon_hugepage") => {
                let (path, range) = (region.label.clone(), region.range.clone());
                images.push(Image { path, range, data: Vec::new() });
                goes_on = true;
            }
            _ => {
                goes_on &= !region.readable && !region.writable && !region.executable;
                continue;
            }
        }
        if region.writable
            && region.readable
            && let Some(image) = images.last_mut()
        {
            match image.data.last_mut() {
                Some(last) if last.end == region.range.start => last.end = region.range.end,
                _ => image.data.push(region.range.clone()),
            }
        }
    }
    images.retain(|image| !image.path.starts_with("/dev/"));
    images
}

fn is_bss(region: &Region) -> bool {
    region.kind == RegionKind::Anonymous
        && region.writable
        && !region.shared
        && region.label.is_empty()
}

#[cfg(test)]
mod tests {
    use heapattach_process::proc::maps::parse;

    use super::*;
    use crate::{regions, synthetic::Synthetic};

    #[test]
    fn a_module_has_its_variables_and_what_is_zero_behind_them() {
        let text = b"1000-2000 r--p 0 0:1 1 /exe\n\
            2000-3000 r-xp 1000 0:1 1 /exe\n\
            3000-4000 rw-p 2000 0:1 1 /exe\n\
            4000-6000 rw-p 0 0:0 0 \n\
            8000-9000 r--p 0 0:1 2 /lib\n\
            a000-b000 rw-p 1000 0:1 2 /lib\n\
            c000-d000 rw-p 0 0:0 0 \n";
        let memory = Synthetic::default();
        let moment = Moment::new(&memory, regions(&parse(text).unwrap()), Vec::new());
        let image = |path: &str, range, data| Image { path: path.to_owned(), range, data };
        let (exe, lib) =
            (Vec::from_iter(Some(0x3000..0x6000)), Vec::from_iter(Some(0xa000..0xb000)));
        let expected = [image("/exe", 0x1000..0x6000, exe), image("/lib", 0x8000..0xb000, lib)];
        assert_eq!(moment.images(), expected);
    }

    #[test]
    fn what_of_a_program_is_mapped_once_more_does_not_make_a_part_of_it_what_lies_between() {
        let text = b"1000-2000 r-xp 1000 0:1 1 /exe\n\
            2000-3000 ---p 0 0:0 0 \n\
            3000-4000 rw-p 2000 0:1 1 /exe\n\
            8000-9000 rw-p 0 0:0 0 \n\
            a000-b000 r-xp 1000 0:1 1 /exe\n";
        let memory = Synthetic::default();
        let moment = Moment::new(&memory, regions(&parse(text).unwrap()), Vec::new());
        let ranges: Vec<_> = moment.images().iter().map(|image| image.range.clone()).collect();
        assert_eq!(ranges, [0x1000..0x4000, 0xa000..0xb000]);
    }

    #[test]
    fn memory_that_was_never_touched_is_zero_and_what_is_not_mapped_is_none() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        memory.write(0x11ff8, 7);
        let moment = memory.moment();
        assert_eq!(moment.word(0x11ff8), Some(7));
        assert_eq!(moment.word(0x1f000), Some(0));
        assert_eq!(moment.word(0x20000), None);
        assert_eq!(moment.word(0x1fffc), None);
        assert_eq!(moment.words(0x11ff0, 3), Some(vec![0, 7, 0]));
        assert_eq!(moment.words(0x1fff0, 3), None);
        assert_eq!(moment.present(&(0..0x40000)).first(), Some(&(0x11000..0x12000)));
    }

    #[test]
    fn pages_that_follow_each_other_are_read_together_in_either_direction() {
        let mut memory = Synthetic::default();
        memory.map(0x10_0000..0x20_0000);
        (0x10_0000..0x20_0000).step_by(512).for_each(|at| memory.write(at, at));
        for is_upwards in [true, false] {
            let counted = Counted { memory: &memory, reads: Cell::new(0) };
            let moment = Moment::new(&counted, memory.regions.clone(), Vec::new());
            // As a walk does before.
            moment.present(&(0..u64::MAX));
            let mut all: Vec<u64> = (0x10_0000..0x20_0000).step_by(512).collect();
            if !is_upwards {
                all.reverse();
            }
            for at in all {
                assert_eq!(moment.word(at), Some(at), "{at:#x}");
            }
            assert!(counted.reads.get() <= 256 / 15 + 2, "{} reads", counted.reads.get());
        }
    }

    /// Counts what is read.
    struct Counted<'a> {
        memory: &'a Synthetic,
        reads: Cell<usize>,
    }

    impl Memory for Counted<'_> {
        fn read(&self, at: u64, buffer: &mut [u8]) -> usize {
            self.reads.set(self.reads.get() + 1);
            self.memory.read(at, buffer)
        }

        fn present(&self, range: &Range<u64>) -> Vec<Range<u64>> {
            self.memory.present(range)
        }

        fn swapped(&self, range: &Range<u64>) -> Vec<Range<u64>> {
            self.memory.swapped(range)
        }
    }
}
