//! The profile: what the events of a session add up to, by call stack, at any moment.
//!
//! ```text
//! events -> live (which block is it) -> changes -> sheet (sums by stack and thread) -> estimates
//!        -> mappings (which pages)   ->         -> journal (a recording)
//! ```
//!
//! ```
//! use heapattach_process::{addr::RemoteAddr, event::{Event, Origin, StackId, What}};
//! use heapattach_profile::{Flow, Limits, Profile, Tick};
//!
//! let event = |stamp, what| Event { stamp, origin: Origin::default(), what };
//! let at = RemoteAddr::new(0x5000);
//! let born = What::Allocated { at, size: 48, stack: StackId(1), interval: 1 };
//! let mut profile = Profile::new(Limits::default(), 20);
//! profile.apply(&[event(1, born)], Tick(0), &mut ());
//! assert_eq!(profile.live_blocks().map(|block| block.size).sum::<u64>(), 48);
//! profile.apply(&[event(2, What::Freed { at, block: Some(1) })], Tick(9), &mut ());
//! // Every block was recorded (an interval of 1): sums are exact, and no interval surrounds them.
//! let freed = profile.heap().measure(Flow::Freed).bytes;
//! assert_eq!((freed.low, freed.value, freed.high), (48.0, 48.0, 48.0));
//! ```
//!
//! No I/O, no symbols, and no time but what it is given: [`clock`] alone asks for it, so that all callers count
//! from one beginning. No matter what the target writes, memory stays within [`Limits`], and
//! what had to be left out is counted in [`Oddities`], `Mappings` and the unknown row.

mod births;
mod block;
mod bound;
mod change;
pub mod clock;
mod estimate;
mod exact;
mod histogram;
mod kernel;
mod live;
mod mappings;
mod pending_frees;
mod quick_sum;
mod range;
mod reversible_sum;
mod row;
mod rows;
mod sheet;
mod sum;
mod table;
mod tick;
mod unseen;

#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
#[cfg(test)]
mod tests;

pub use births::{Births, SPANS};
pub use block::{Kind, RowId};
pub use bound::Bound;
pub use change::{Change, Journal};
pub use estimate::{Estimate, Measure, SUMS, Samples};
pub use exact::Exact;
pub use histogram::Histogram;
pub use kernel::{Calls, KernelCalls};
pub use live::Oddities;
pub use mappings::Mapped;
pub use quick_sum::QuickSum;
pub use range::{Amount, Range};
pub use row::{Flow, Row, Tally};
pub use sheet::{Sheet, Snapshot};
pub use sum::Sum;
pub use tick::{Tick, micros, ticks};
pub use unseen::{Facts, Unseen};

use std::collections::HashMap;

use heapattach_abi::ring::OWN_RINGS;
use heapattach_process::event::{Event, StackId, What};

use block::Block;
use kernel::Kernel;
use live::LiveSet;
use mappings::Mappings;

/// How much may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Live blocks; each costs 48 to 96 bytes.
    pub blocks: usize,
    /// Ranges of pages.
    pub ranges: usize,
    /// Call stacks, each in as many threads as it is called in.
    pub rows: usize,
}

/// The threads that write records, by the number of their ring; 0 is all threads together.
pub type Writers = [u16; OWN_RINGS];

/// A block that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// The address of its first byte.
    pub at: u64,
    /// The bytes requested.
    pub size: u64,
    /// The number of the stack that asked.
    pub stack: u32,
    /// When it was born.
    pub birth: Tick,
}

/// A recorded block that is in use, and how it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedBlock {
    /// The address of its first byte.
    pub at: u64,
    /// What it has in common with others; its row is the first one of its stack, of whichever thread.
    pub kind: Kind,
}

/// The aggregate of a session's events.
#[derive(Debug)]
pub struct Profile {
    live: LiveSet,
    mappings: Mappings,
    kernel: Kernel,
    sheet: Sheet,
    writers: Writers,
}

impl Default for Limits {
    fn default() -> Self {
        Self { blocks: 1 << 24, ranges: 1 << 20, rows: 1 << 21 }
    }
}

impl Profile {
    /// A profile of nothing; blocks that live for less than so many ticks are temporary.
    pub fn new(limits: Limits, temporary: u32) -> Self {
        Self {
            live: LiveSet::new(limits.blocks),
            mappings: Mappings::new(limits.ranges),
            kernel: Kernel::default(),
            sheet: Sheet::new(limits.rows, temporary),
            writers: [0; OWN_RINGS],
        }
    }

    /// From now on records are of these threads.
    pub fn set_writers(&mut self, writers: &Writers) {
        self.writers = *writers;
    }

    /// Takes in the next events, in the order of their stamps, and tells the journal.
    pub fn apply(&mut self, events: &[Event], now: Tick, journal: &mut impl Journal) {
        for batch in events.chunks(table::TOGETHER) {
            self.live.warm(batch.iter().filter_map(|event| match event.what {
                What::Allocated { at, .. } | What::Freed { at, .. } => Some(at),
                _ => None,
            }));
            batch.iter().for_each(|event| self.apply_one(event, now, journal));
        }
    }

    /// Takes in what a runtime counted itself for a stack: so many blocks of one size that came, and went, of
    /// those that were taken with this probability, or of all.
    pub fn counted(&mut self, stack: StackId, size: u64, p: Option<f64>, blocks: [u64; 2]) {
        let row = self.sheet.rows.of(stack, 0);
        self.sheet.counted(row, size, p, blocks);
    }

    /// The sums.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// The sums, and nothing else: what is only needed for more of them is gone.
    pub fn into_sheet(self) -> Sheet {
        self.sheet
    }

    /// What is known of the session besides its events.
    pub fn know(&mut self, known: Facts) {
        self.sheet.know(known);
    }

    /// What is to be known besides the last snapshot.
    pub fn snapshot(&mut self) -> Snapshot {
        self.sheet.snapshot()
    }

    /// All blocks together.
    pub fn heap(&self) -> Tally {
        self.sheet.total().heap
    }

    /// The most bytes that were live at once, see [`Sheet::peak`].
    pub fn peak(&self) -> Estimate {
        self.sheet.peak()
    }

    /// What each stack allocated in all threads, those with the most bytes of this kind first.
    pub fn sites_by(&self, flow: Flow) -> Vec<Row> {
        let mut places: HashMap<StackId, usize> = HashMap::new();
        let mut sites: Vec<Row> = Vec::new();
        for row in self.sheet.rows.all().iter().filter(|row| row.is_known()) {
            let place = *places.entry(row.stack).or_insert(sites.len());
            match sites.get_mut(place) {
                Some(site) => site.merge(&self.sheet.finished(row)),
                None => sites.push(self.sheet.finished(row)),
            }
        }
        let mut keyed: Vec<_> =
            sites.into_iter().map(|site| (site.heap.bytes(flow), site)).collect();
        keyed.sort_by(|(a, left), (b, right)| {
            b.total_cmp(a).then_with(|| left.stack.cmp(&right.stack))
        });
        keyed.into_iter().map(|(_, site)| site).collect()
    }

    /// The recorded blocks that are live.
    pub fn live_records(&self) -> usize {
        self.live.len()
    }

    /// The recorded blocks themselves, in no order.
    pub fn live_blocks(&self) -> impl Iterator<Item = LiveBlock> {
        let rows = self.sheet.rows.all();
        self.live.blocks().map(|block| {
            let stack = rows.get(block.kind().row.0 as usize).map_or(0, |row| row.stack.0);
            let (at, size) = (block.at().get(), block.kind().size);
            LiveBlock { at, size, stack, birth: block.birth() }
        })
    }

    /// The same, with how each was taken.
    pub fn recorded_blocks(&self) -> impl Iterator<Item = RecordedBlock> {
        let rows = self.sheet.rows.all();
        let mut firsts: HashMap<StackId, u32> = HashMap::new();
        for (number, row) in (0_u32..).zip(rows) {
            firsts.entry(row.stack).or_insert(number);
        }
        self.live.blocks().map(move |block| {
            let kind = block.kind();
            let first = rows.get(kind.row.0 as usize).and_then(|row| firsts.get(&row.stack));
            let row = first.map_or(kind.row, |first| RowId(*first));
            RecordedBlock { at: block.at().get(), kind: kind.in_row(row) }
        })
    }

    /// Addresses and sizes of blocks that calls have exchanged for others, or are about to; the oldest
    /// first.
    pub fn announced_blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.live.announced().map(|block| (block.at().get(), block.kind().size))
    }

    /// The mapped ranges, ascending, with the stacks that asked for them.
    pub fn live_ranges(&self) -> impl Iterator<Item = (Mapped, StackId)> {
        let rows = self.sheet.rows.all();
        let stack = |row: RowId| rows.get(row.0 as usize).map(|row| row.stack);
        self.mappings.all().filter_map(move |mapped| Some((mapped.clone(), stack(mapped.row)?)))
    }

    /// Where the heap of brk ends before the first event, if that is known.
    pub fn know_heap_end(&mut self, end: Option<u64>) {
        self.kernel.begin_at(end);
    }

    /// What each row asked the kernel for: of those that asked for most, by their numbers.
    pub fn kernel_calls(&self, rows: usize) -> Vec<(u32, KernelCalls)> {
        self.kernel.most(rows)
    }

    /// What did not add up among the blocks.
    pub fn oddities(&self) -> Oddities {
        self.live.oddities()
    }

    /// The pages, for what did not add up among them.
    pub fn mappings(&self) -> &Mappings {
        &self.mappings
    }

    fn apply_one(&mut self, event: &Event, now: Tick, journal: &mut impl Journal) {
        let Self { live, mappings, kernel, sheet, writers } = self;
        let thread = writers.get(usize::from(event.origin.ring)).copied().unwrap_or(0);
        let mut tell = |sheet: &mut Sheet, change: Change| {
            sheet.apply(&change, now);
            journal.note(&change);
        };
        match event.what {
            What::Allocated { at, size, stack, interval } => {
                let kind = Kind::new(sheet.rows.of(stack, thread), size, interval);
                let arrival = live.allocated(Block::new(at, event.stamp, now, kind));
                if let Some(missed) = arrival.missed {
                    tell(sheet, Change::Freed { kind: missed.kind(), birth: missed.birth() });
                }
                let exchanged = event.origin.continues;
                tell(sheet, Change::Allocated { kind, kept: arrival.kept, exchanged });
            }
            What::Freed { at, block } => {
                let stamp = (!event.origin.is_final).then_some(event.stamp);
                if let Some(block) = live.freed(stamp, now, at, block) {
                    tell(sheet, Change::Freed { kind: block.kind(), birth: block.birth() });
                }
            }
            What::Mapped { at, length, stack } => {
                let row = sheet.rows.of(stack, thread);
                let placed = mappings.mapped(at, length, row, now);
                for piece in placed.replaced {
                    let (row, birth) = (piece.row.unwrap_or_default(), Some(piece.birth));
                    tell(sheet, Change::Unmapped { row, bytes: piece.bytes(), birth });
                }
                kernel.mapped(row, placed.bytes);
                tell(sheet, Change::Mapped { row, bytes: placed.bytes, kept: placed.kept });
            }
            What::Broke { end, stack } => {
                let row = sheet.rows.of(stack, thread);
                if kernel.ends_at(row, end.get()) {
                    tell(sheet, Change::Mapped { row, bytes: 0, kept: false });
                }
            }
            What::Discarded { length, stack, .. } => {
                let row = sheet.rows.of(stack, thread);
                if kernel.discarded(row, length) {
                    tell(sheet, Change::Mapped { row, bytes: 0, kept: false });
                }
            }
            What::Unmapped { at, length, stack } => {
                if stack.0 != 0 {
                    let row = sheet.rows.of(stack, thread);
                    if kernel.unmapped(row, event.stamp, length) {
                        tell(sheet, Change::Mapped { row, bytes: 0, kept: false });
                    }
                }
                for piece in mappings.unmapped(event.stamp, at, length) {
                    if let Some(row) = piece.row {
                        let birth = Some(piece.birth);
                        tell(sheet, Change::Unmapped { row, bytes: piece.bytes(), birth });
                    }
                }
            }
            What::Restored { announced } => {
                if let Some((block, death)) = live.restored(announced) {
                    let (kind, birth) = (block.kind(), block.birth());
                    tell(sheet, Change::Restored { kind, birth, death });
                    return;
                }
                kernel.remained(announced);
                for piece in mappings.restored(announced) {
                    if let Some(row) = piece.row {
                        let birth = Some(piece.birth);
                        tell(sheet, Change::Remained { row, bytes: piece.bytes(), birth });
                    }
                }
            }
        }
    }
}
