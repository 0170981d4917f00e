//! The part of the interpreter's loop that a compiler put elsewhere: where it was taught by a profile, that may
//! be nearly all of it. It is known by jumps from the loop into the middle of a function that has an entry of
//! its own in the table for unwinding. Everything is read from the target's memory.

use std::ops::Range;

use heapattach_process::{
    addr::RemoteAddr,
    image::{Mapped, images},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
};

use crate::arch;

/// The loop is never longer, nor the part of it.
const LONGEST: u64 = 1 << 20;
/// Nor has a module more functions.
const FUNCTIONS: u64 = 1 << 20;
/// How the table begins that linkers write: relative addresses of 32 bits, sorted.
const HEAD: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const ROWS_AT: u64 = 12;
const ROW: usize = 8;

/// Where it lies, if there is one.
pub(super) fn cold_part(
    memory: &Memory,
    maps: &[Mapping<'_>],
    body: &Range<RemoteAddr>,
) -> Option<Range<RemoteAddr>> {
    let length = body.end.offset_from(body.start).filter(|length| *length <= LONGEST)?;
    let images = images(memory, maps);
    let image = images.iter().find(|image| image.code.contains(&body.start))?;
    let table = Table::read(memory, image.mapped?)?;
    let code = memory.read_vec(body.start, usize::try_from(length).ok()?).ok()?;
    let targets = arch::jumps_out(&code, body.start);
    let mut parts = targets.iter().filter_map(|target| {
        let part = table.containing(memory, *target)?;
        // A jump to the beginning of a function is a call of it.
        (part.start != *target && part.end > *target).then_some(part)
    });
    parts.next().filter(|part| image.code.contains(&part.start) && part.end <= image.code.end)
}

/// The functions of a module, as the table for unwinding lists them.
pub(super) struct Table {
    header: RemoteAddr,
    rows: Vec<u8>,
}

impl Table {
    pub(super) fn read(memory: &Memory, mapped: Mapped) -> Option<Self> {
        let header = mapped.header;
        let head = memory.read_vec(header, usize::try_from(ROWS_AT).ok()?).ok()?;
        let count = u64::from(u32_at(&head, 8)?);
        if head[..4] != HEAD || count > FUNCTIONS {
            return None;
        }
        let rows =
            memory.read_vec(header.checked_add(ROWS_AT)?, usize::try_from(count).ok()? * ROW);
        Some(Self { header, rows: rows.ok()? })
    }

    /// Where each begins, and the one behind it, ascending.
    pub(super) fn starts(&self) -> impl Iterator<Item = Range<RemoteAddr>> {
        let (rows, _) = self.rows.as_chunks::<ROW>();
        rows.windows(2).filter_map(|pair| Some(self.place(&pair[0], 0)?..self.place(&pair[1], 0)?))
    }

    /// The one that has code here.
    pub(super) fn containing(&self, memory: &Memory, at: RemoteAddr) -> Option<Range<RemoteAddr>> {
        let (rows, _) = self.rows.as_chunks::<ROW>();
        let next = rows.partition_point(|row| self.place(row, 0).is_some_and(|start| start <= at));
        let row = rows.get(next.checked_sub(1)?)?;
        let (start, entry) = (self.place(row, 0)?, self.place(row, 4)?);
        // Its length and that of what it shares with others; where it begins, from here, and how long it is.
        let entry_at = entry.checked_add(8)?;
        let word = u64_at(&memory.read_vec(entry_at, 8).ok()?, 0)?;
        let begins = entry_at.get().wrapping_add_signed(i64::from(low(word).cast_signed()));
        let length = word >> 32;
        let is_it = begins == start.get() && length <= LONGEST;
        is_it.then_some(start..start.checked_add(length)?)
    }

    fn place(&self, row: &[u8; ROW], at: usize) -> Option<RemoteAddr> {
        let offset = i64::from(u32_at(row, at)?.cast_signed());
        Some(RemoteAddr::new(self.header.get().wrapping_add_signed(offset)))
    }
}

fn low(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or_default()
}
