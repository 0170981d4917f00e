//! The payload mapped and wired as the injector would do it.
//!
//! # Safety
//! Hooks are called as the functions they stand for.
#![allow(unsafe_code)]

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use heapattach_abi::{
    control, flow,
    form::Form,
    index::{BUCKETS, ENTRY_BYTES, INDEX_BYTES, PRIVATE_BYTES, PROBES},
    kind::{HookKind, MAX_HOOKS},
    python::{ORDERS_AT, Order},
    region,
    ring::{self, Kind},
    row::{self, Count, ROW_BYTES, ROWS},
    samples, stacks,
};
use heapattach_injector::attach::PayloadImage;

use crate::{
    mapped::Mapped,
    originals::{Call, address, allocate, allocate_into, index, zero},
};

/// The file that the command carries.
pub const FILE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload.so"));

/// The one that counts blocks by size as well.
const FILE_OF_FLOW: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/payload_flow.so"));

/// An interval so long that nothing is ever a sample.
pub const NEVER: u64 = 1 << 55;

/// Calls and bytes per hook.
pub type Counts = BTreeMap<usize, Count>;

/// A record, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub hook: usize,
    pub address: u64,
    pub size: u64,
    pub stamp: u64,
    pub stack: u32,
    pub interval_number: usize,
}

/// A payload of our own.
pub struct Placed {
    text: Mapped,
    private: Mapped,
    region: Mapped,
    image: PayloadImage,
    ring_bits: u32,
    /// Whether it counts blocks by size.
    pub is_flow: bool,
    is_brief: AtomicBool,
}

impl Placed {
    /// All hooks enabled, without a deadline; they go on at functions that play an allocator.
    pub fn new(interval: u64, ring_bits: u32) -> Self {
        Self::with_tables(interval, ring_bits, 0)
    }

    /// The same with so many bytes for unwind tables.
    pub fn with_tables(interval: u64, ring_bits: u32, tables: usize) -> Self {
        Self::of(false, interval, ring_bits, tables)
    }

    /// The build that counts blocks by size, and is told that all of them have one.
    pub fn of_flow(interval: u64, ring_bits: u32) -> Self {
        Self::of(true, interval, ring_bits, 0)
    }

    fn of(is_flow: bool, interval: u64, ring_bits: u32, tables: usize) -> Self {
        let image = PayloadImage::parse(if is_flow { FILE_OF_FLOW } else { FILE }).unwrap();
        let text = Mapped::text(image.text().len().next_multiple_of(4096));
        let private = Mapped::wiped_on_fork(PRIVATE_BYTES);
        let region = Mapped::shared(region::tables_at(ring_bits) + tables);
        text.write(0, image.text());
        text.set(image.control_cell(), private.address);
        text.set(image.index_cell(), private.address + control::CONTROL_BYTES as u64);
        text.set(image.filter_cell(), region.address + region::FILTER_AT as u64);
        let placed = Self {
            text,
            private,
            region,
            image,
            ring_bits,
            is_flow,
            is_brief: AtomicBool::new(false),
        };
        for kind in HookKind::ALL {
            placed.lead(
                kind,
                match kind {
                    HookKind::Free | HookKind::Unmap => zero,
                    HookKind::PosixMemalign => allocate_into,
                    _ => allocate,
                },
            );
        }
        placed.enable(interval, 0);
        placed
    }

    /// Makes all hooks of one kind go on elsewhere.
    pub fn lead(&self, kind: HookKind, original: Call) {
        self.image.hooks_of(kind).for_each(|hook| self.lead_hook(hook, address(original)));
    }

    /// Makes one hook go on elsewhere.
    pub fn lead_hook(&self, hook: usize, original: u64) {
        self.text.set(self.image.orig_cell(hook).unwrap(), original);
        let second = match HookKind::of_hook(hook) {
            Some(HookKind::New) => original,
            Some(HookKind::Chosen) => Form { size: 2, ..Form::default() }.pack(),
            _ => u64::from(self.is_flow) * flow::COUNTS,
        };
        self.set_second(hook, second);
    }

    /// Says what a hook needs besides.
    pub fn set_second(&self, hook: usize, second: u64) {
        self.text.set(self.image.second_cell(hook).unwrap(), second);
    }

    /// Says what tells how large a block of a hook's is, and whether it is its allocator's.
    pub fn set_sizer(&self, hook: usize, sizer: u64, owner: u64) {
        let cells = self.image.size_cells(hook).expect("it counts by size");
        cells.into_iter().zip([sizer, owner]).for_each(|(cell, to)| self.text.set(cell, to));
    }

    /// Switches the hooks on.
    pub fn enable(&self, interval: u64, salt: u32) {
        let by_address = interval <= 1;
        if by_address {
            self.region.write(region::FILTER_AT, &[u8::MAX; samples::FILTER_BYTES]);
        }
        self.set_interval(interval, 0);
        self.private.set(control::REGION, self.region.address);
        self.private.set(control::RING_BITS, u64::from(self.ring_bits));
        self.private.set(control::EXPIRED, u64::from(salt) << 32);
        self.private.set(control::MOST_FRAMES, u64::from(stacks::USUAL_FRAMES));
        self.private.set(control::ENABLED, 1 | u64::from(by_address) << 32);
    }

    /// Where the region begins.
    pub fn region_address(&self) -> u64 {
        self.region.address
    }

    /// Of so many stacks one is verified.
    pub fn set_verify(&self, one_in: u64) {
        let frames = self.private.get(control::MOST_FRAMES) & 0xffff_ffff;
        self.private.set(control::VERIFY - 4, frames | one_in << 32);
    }

    /// Frames of a stack that are recorded.
    pub fn set_most_frames(&self, frames: u64) {
        self.private.set(control::MOST_FRAMES, frames);
    }

    /// How often a thread looks for room in a full ring, and at which looks it lets others run.
    pub fn set_patience(&self, looks: u32, yield_mask: u32) {
        let bits = u64::from(self.ring_bits);
        self.private.set(control::RING_BITS, bits | u64::from(looks) << 32);
        self.private.set(control::MAY_COPY, u64::from(yield_mask) << 32);
    }

    /// Writes a word that the injector found out about an interpreter.
    pub fn set_order(&self, order: Order, word: u64) {
        self.private.set(ORDERS_AT + order as usize, word);
    }

    /// Switches them off.
    pub fn disable(&self) {
        self.private.set(control::ENABLED, self.private.get(control::ENABLED) & !0xffff_ffff);
    }

    /// As a forked child finds it.
    pub fn wipe_private(&self) {
        self.private.wipe(0, PRIVATE_BYTES);
    }

    /// Whether the hooks are enabled, and whether they are not because of the heartbeat.
    pub fn state(&self) -> (bool, bool) {
        let half = |offset| self.private.get(offset) & 0xffff_ffff != 0;
        (half(control::ENABLED), half(control::EXPIRED))
    }

    pub fn set_interval(&self, interval: u64, number: u8) {
        self.region.set(region::INTERVAL, region::pack_interval(interval, number));
    }

    pub fn set_deadline(&self, tsc: u64) {
        self.region.set(region::DEADLINE_TSC, tsc);
    }

    /// The addresses of the payload.
    pub fn code(&self) -> Range<u64> {
        self.text.address..self.text.address + self.image.text().len() as u64
    }

    /// Writes a byte of the code, and tells the one before.
    pub fn patch(&self, address: u64, byte: u8) -> u8 {
        let at = index(address - self.text.address);
        let before = self.text.byte(at);
        self.text.write(at, &[byte]);
        before
    }

    pub fn hook_address(&self, hook: usize) -> u64 {
        let offset = match self.is_brief.load(Relaxed) {
            true => self.image.brief_offset(hook),
            false => self.image.hook_offset(hook),
        };
        self.text.address + offset.unwrap() as u64
    }

    /// Whether the hooks are the brief ones from now on, where there are such.
    pub fn be_brief(&self, is_brief: bool) {
        self.is_brief.store(is_brief, Relaxed);
    }

    /// Whether a hook is a brief one.
    pub fn is_brief(&self, hook: usize) -> bool {
        self.hook_address(hook) != self.text.address + self.image.hook_offset(hook).unwrap() as u64
    }

    /// A hook as the function it stands for.
    pub fn hook(&self, hook: usize) -> Call {
        // SAFETY: hooks are entered like what they hook, and lead to functions of this type.
        unsafe { std::mem::transmute::<u64, Call>(self.hook_address(hook)) }
    }

    /// The first hook of a kind.
    pub fn first(&self, kind: HookKind) -> Call {
        self.hook(kind.first_hook())
    }

    /// A word of the region.
    pub fn word(&self, at: usize) -> u64 {
        self.region.get(at)
    }

    pub fn set_word(&self, at: usize, word: u64) {
        self.region.set(at, word);
    }

    /// A word of a row.
    pub fn row(&self, row: usize, at: usize) -> u64 {
        self.region.get(region::ROWS_AT + row * ROW_BYTES + at)
    }

    pub fn set_row(&self, row: usize, at: usize, word: u64) {
        self.region.set(region::ROWS_AT + row * ROW_BYTES + at, word);
    }

    /// Number of rows that threads have, or would have if there were as many.
    pub fn rows_taken(&self) -> u64 {
        self.word(region::ROWS_TAKEN)
    }

    /// Leaves no row for a new thread.
    pub fn use_up_rows(&self) {
        self.set_word(region::ROWS_TAKEN, ROWS as u64 - 1);
    }

    /// Entries of the index of threads.
    pub fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        let at = |i| control::CONTROL_BYTES + i * ENTRY_BYTES;
        let count = BUCKETS + PROBES;
        (0..count).map(move |i| (self.private.get(at(i)), self.private.get(at(i) + 8)))
    }

    /// Makes all threads new ones.
    pub fn forget_threads(&self) {
        self.fill_index(0);
        self.set_word(region::ROWS_TAKEN, 0);
    }

    /// Writes the same key to every entry of the index of threads: 0 forgets the threads, another
    /// one leaves no room.
    pub fn fill_index(&self, key: u64) {
        for entry in 0..BUCKETS + PROBES {
            self.private.set(control::CONTROL_BYTES + entry * ENTRY_BYTES, key);
        }
    }

    /// The row of the calling thread.
    pub fn own_row(&self) -> usize {
        let own = thread_pointer();
        let (_, row) = self.entries().find(|(key, _)| *key == own).unwrap();
        (index(row - self.region.address) - region::ROWS_AT) / ROW_BYTES
    }

    /// Rows that may hold anything.
    fn rows(&self) -> Range<usize> {
        0..(index(self.rows_taken()) + 1).min(ROWS)
    }

    /// The sum of a word over all rows.
    pub fn total(&self, at: usize) -> u64 {
        self.rows().fold(0, |sum, row| sum.wrapping_add(self.row(row, at)))
    }

    /// Everything counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for (row, hook) in self.rows().flat_map(|row| (0..MAX_HOOKS).map(move |hook| (row, hook))) {
            let at = row::COUNTS + hook * row::COUNT_BYTES;
            let (calls, bytes) = (self.row(row, at), self.row(row, at + 8));
            if (calls, bytes) != (0, 0) {
                let count = counts.entry(hook).or_default();
                count.calls += calls;
                count.bytes = count.bytes.wrapping_add(bytes);
            }
        }
        counts
    }

    /// Blocks allocated and freed, of each class of size that had any.
    pub fn flows(&self) -> BTreeMap<usize, [u64; 2]> {
        let mut flows = BTreeMap::new();
        for (row, class) in self.rows().flat_map(|row| (0..flow::CLASSES).map(move |c| (row, c))) {
            let at = region::FLOWS_AT + row * flow::FLOW_BYTES + class * flow::CLASS_BYTES;
            let words = [self.region.get(at), self.region.get(at + 8)];
            if words != [0, 0] {
                let sum: &mut [u64; 2] = flows.entry(class).or_default();
                sum.iter_mut().zip(words).for_each(|(sum, more)| *sum = sum.wrapping_add(more));
            }
        }
        flows
    }

    /// All unread records in the order of their stamps; every slot is sealed and makes sense.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for ring in 0..ring::RINGS {
            let (head, tail) = self.positions(ring);
            assert!(head - tail <= 1 << self.ring_bits, "ring {ring}: {tail}..{head}");
            records.extend((tail..head).map(|position| self.record(ring, position)));
        }
        records.sort_by_key(|record| record.stamp);
        records
    }

    fn record(&self, ring: usize, position: u64) -> Record {
        let slot = index(position) & ((1 << self.ring_bits) - 1);
        let at = region::SLOTS_AT + ((ring << self.ring_bits) + slot) * ring::SLOT_BYTES;
        let [seal, packed, size, stamp] = [0, 8, 16, 24].map(|word| self.region.get(at + word));
        assert!(ring::is_sealed(seal, position), "ring {ring}, position {position}: {seal:#x}");
        let (kind, hook, interval_number) = ring::parts(packed);
        let kind = kind.expect("a kind that exists");
        let address = packed & ring::ADDRESS_MASK;
        let stack = (seal >> 32) as u32;
        Record { kind, hook, address, size, stamp, stack, interval_number }
    }

    /// Head and tail of a ring.
    pub fn positions(&self, ring: usize) -> (u64, u64) {
        let at = region::RING_HEADS_AT + ring * ring::RING_HEAD_BYTES;
        (self.region.get(at + ring::HEAD), self.region.get(at + ring::TAIL))
    }

    /// Makes room in all rings.
    pub fn drain(&self) {
        for ring in 0..ring::RINGS {
            let at = region::RING_HEADS_AT + ring * ring::RING_HEAD_BYTES;
            self.region.set(at + ring::TAIL, self.positions(ring).0);
        }
    }

    /// The frames of a stack and why it ends.
    pub fn stack(&self, number: u32) -> (Vec<u64>, u8) {
        let entry = region::STACK_INDEX_AT + (number as usize - 1) * stacks::ENTRY_BYTES;
        let (first, frames, end) = stacks::place(self.region.get(entry + 8)).expect("a stack");
        let word = |i| self.region.get(region::STACK_WORDS_AT + (first + i) * 8);
        ((0..frames).map(word).collect(), end)
    }

    /// Where in the region the entries of the table for a block are.
    pub fn places_of(block: u64) -> impl Iterator<Item = usize> {
        let bucket = |bucket| {
            (0..samples::WAYS).map(move |way| {
                region::SAMPLES_AT + (bucket * samples::WAYS + way) * samples::ENTRY_BYTES
            })
        };
        let [first, second] = samples::buckets(block);
        bucket(first).chain(bucket(second))
    }

    /// The stamps with which the table knows a block.
    pub fn stamps_of(&self, block: u64) -> Vec<u64> {
        let mut places: Vec<_> = Self::places_of(block).collect();
        places.sort_unstable();
        places.dedup();
        let known = places.into_iter().filter(|at| self.word(*at) == block);
        known.map(|at| self.word(at + 8)).collect()
    }

    /// All entries of the table, in use or just being filled.
    pub fn table_entries(&self) -> usize {
        let entries = 0..samples::BUCKETS * samples::WAYS;
        let place = |entry: &usize| region::SAMPLES_AT + entry * samples::ENTRY_BYTES;
        entries.filter(|entry| self.word(place(entry)) != 0).count()
    }

    /// The counter of the filter for a block.
    pub fn filter(&self, block: u64) -> u8 {
        self.region.byte(region::FILTER_AT + samples::filter_index(block))
    }

    /// The sum of the filter.
    pub fn filter_sum(&self) -> u64 {
        let bytes = region::FILTER_AT..region::FILTER_AT + samples::FILTER_BYTES;
        bytes.map(|at| u64::from(self.region.byte(at))).sum()
    }

    /// Sets every counter of the filter, so that every block may be a sample.
    pub fn fill_filter(&self) {
        self.region.write(region::FILTER_AT, &[u8::MAX; samples::FILTER_BYTES]);
    }

    /// As new, except for the filter of what is recorded by address; `records` are all that there were.
    pub fn reset(&self, records: &[Record]) {
        let by_address = self.private.get(control::ENABLED) >> 32 != 0;
        self.region.wipe(region::ROWS_AT, self.rows().len() * ROW_BYTES);
        self.set_word(region::ROWS_TAKEN, 0);
        self.set_word(region::STAMP, 0);
        self.set_word(region::STACK_WORDS_TAKEN, 0);
        for record in records.iter().filter(|record| record.stack != 0) {
            let entry = record.stack as usize - 1;
            let at = region::STACK_INDEX_AT + entry * stacks::ENTRY_BYTES;
            self.region.wipe(at, stacks::ENTRY_BYTES);
        }
        self.region.wipe(region::RING_HEADS_AT, ring::RINGS * ring::RING_HEAD_BYTES);
        self.private.wipe(control::CONTROL_BYTES, INDEX_BYTES);
        for record in records.iter().filter(|_| !by_address) {
            Self::places_of(record.address).for_each(|at| self.set_word(at, 0));
            let counter = region::FILTER_AT + samples::filter_index(record.address);
            self.region.write(counter, &[0]);
        }
    }
}

/// The thread pointer of the calling thread.
pub fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the first word of the thread control block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    pointer
}
