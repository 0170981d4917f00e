//! The payload mapped and wired as the injector would do it.
//!
//! # Safety
//! The section's bytes are read from this executable, into which cargo has linked the payload.
#![allow(unsafe_code)]

use std::{collections::BTreeMap, ops::Range};

use heapattach_abi::{
    control,
    image::{IMAGE_BYTES, Image},
    kind::MAX_HOOKS,
    table::{self, Count},
};
use libc::{PROT_EXEC, PROT_READ};

use crate::mapped::Mapped;

/// Calls and bytes per hook and return address; 0 for calls without a site.
pub type Counts = BTreeMap<(usize, u64), Count>;

/// The thread pointer of nobody here: what is counted in such a row is lost.
const SOMEBODY: u64 = 1;

/// A payload of our own.
pub struct Placed {
    text: Mapped,
    control: Mapped,
    table: Mapped,
    image: Image,
}

impl Placed {
    /// All hooks enabled, without a deadline; each goes on at `original`.
    pub fn new(original: u64) -> Self {
        let section = section();
        let image = Image::read(section).unwrap();
        let text = Mapped::new(section.len().next_multiple_of(4096), PROT_READ | PROT_EXEC);
        let control = Mapped::new(4096, PROT_READ | libc::PROT_WRITE);
        let table = Mapped::new(table::TABLE_BYTES, PROT_READ | libc::PROT_WRITE);
        text.write(0, section);
        text.set(image.control_cell as usize, control.address);
        text.set(image.table_cell as usize, table.address);
        let placed = Self { text, control, table, image };
        (0..MAX_HOOKS).for_each(|hook| placed.set_original(hook, original));
        placed.enable(0);
        placed
    }

    /// The address of a hook.
    pub fn hook(&self, index: usize) -> u64 {
        assert!(index < MAX_HOOKS);
        let at = self.image.hooks as usize + index * self.image.hook_stride as usize;
        self.text.address + at as u64
    }

    /// Makes one hook go on elsewhere.
    pub fn set_original(&self, hook: usize, original: u64) {
        assert!(hook < MAX_HOOKS);
        self.text.set(self.image.orig_cells as usize + 8 * hook, original);
    }

    /// The addresses of the payload's code.
    pub fn code(&self) -> Range<u64> {
        self.text.address..self.text.address + u64::from(self.image.text_len)
    }

    /// Switches the hooks on, until a time.
    pub fn enable(&self, deadline_tsc: u64) {
        self.control.set(control::DEADLINE_TSC, deadline_tsc);
        self.control.set(control::EXPIRED, 0);
        self.control.set(control::ENABLED, 1);
    }

    /// Switches the hooks off.
    pub fn disable(&self) {
        self.control.set(control::ENABLED, 0);
    }

    /// `enabled` and `expired`.
    pub fn state(&self) -> (u64, u64) {
        (self.control.get(control::ENABLED), self.control.get(control::EXPIRED))
    }

    /// Makes rows somebody else's.
    pub fn give_away(&self, rows: impl IntoIterator<Item = usize>) {
        for row in rows {
            self.table.set(row * table::ROW_BYTES, SOMEBODY);
        }
    }

    /// Number of rows that have an owner.
    pub fn rows(&self) -> usize {
        (0..table::ALL_ROWS).filter(|row| self.table.get(row * table::ROW_BYTES) != 0).count()
    }

    /// Everything counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        let owned = |row: &usize| *row == 0 || self.table.get(row * table::ROW_BYTES) > SOMEBODY;
        for row in (0..table::ALL_ROWS).filter(owned) {
            self.add_row(row, &mut counts);
        }
        counts
    }

    /// Adds what the row of `thread_pointer` holds to `counts` and clears it.
    ///
    /// Only exact if that thread cannot be inside a hook.
    pub fn take_row(&self, thread_pointer: u64, counts: &mut Counts) {
        let first = table::row_index(thread_pointer);
        let mut rows = first..first + table::ROW_PROBES;
        let owned = |row: &usize| self.table.get(row * table::ROW_BYTES) == thread_pointer;
        let Some(row) = rows.find(owned) else { return };
        self.add_row(row, counts);
        self.clear_row(row);
    }

    /// The row that a thread without one would take.
    pub fn next_row(&self, thread_pointer: u64) -> usize {
        let free = |row: &usize| self.table.get(row * table::ROW_BYTES) == 0;
        (table::row_index(thread_pointer)..).find(free).unwrap()
    }

    /// Clears a row and returns the sum of its words, its owner's thread pointer among them.
    pub fn clear_row(&self, row: usize) -> u64 {
        let words = (0..table::ROW_BYTES).step_by(8).map(|at| row * table::ROW_BYTES + at);
        words.fold(0, |sum, at| {
            let word = self.table.get(at);
            self.table.set(at, 0);
            sum.wrapping_add(word)
        })
    }

    fn add_row(&self, row: usize, counts: &mut Counts) {
        let word = |at| self.table.get(row * table::ROW_BYTES + at);
        let mut add = |hook, caller, at| {
            if word(at) != 0 {
                let count: &mut Count = counts.entry((hook, caller)).or_default();
                count.calls += word(at);
                count.bytes = count.bytes.wrapping_add(word(at + 8));
            }
        };
        for hook in 0..MAX_HOOKS {
            add(hook, 0, table::ROW_OVERFLOW + hook * table::COUNT_BYTES);
        }
        for site in 0..table::SITES + table::SITE_PROBES {
            let at = table::ROW_SITES + site * table::SITE_BYTES;
            let (hook, caller) = table::split_key(word(at));
            add(hook, caller, at + table::SITE_CALLS);
        }
    }
}

/// The payload's section as it lies in this executable.
pub fn section() -> &'static [u8] {
    let start = heapattach_payload::heapattach_payload as *const u8;
    // SAFETY: the section begins with its descriptor.
    let head = unsafe { std::slice::from_raw_parts(start, IMAGE_BYTES) };
    let len = Image::read(head).unwrap().text_len as usize;
    // SAFETY: the descriptor states the section's length, and text is never written.
    unsafe { std::slice::from_raw_parts(start, len) }
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
