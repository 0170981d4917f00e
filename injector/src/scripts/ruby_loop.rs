//! The loop that runs Ruby's code, in a library that does not export it: of all its functions the one that jumps by
//! registers far more often than any other, once for each kind of instruction.

use std::ops::Range;

use heapattach_process::{addr::RemoteAddr, image::images, memory::Memory, proc::maps::Mapping};

use super::cold_part::Table;
use crate::arch;

/// It is never shorter, nor longer.
const LENGTHS: Range<u64> = 8 << 10..64 << 10;
/// Functions of such a length that are looked at: a library has some twenty.
const FUNCTIONS: usize = 256;
/// It has at least so many jumps, and so many times as many as any other.
const JUMPS: usize = 64;
const TIMES: usize = 2;

/// Where it lies in the library that has code at this place, if it is certain.
pub(super) fn loop_of(
    memory: &Memory,
    maps: &[Mapping<'_>],
    inside: RemoteAddr,
) -> Option<Range<RemoteAddr>> {
    let images = images(memory, maps);
    let image = images.iter().find(|image| image.code.contains(&inside))?;
    let table = Table::read(memory, image.mapped?)?;
    let of_table = |range: &Range<RemoteAddr>| {
        let own = table.containing(memory, range.start)?;
        let is_whole = own.start == range.start && own.end <= image.code.end;
        let length = own.end.offset_from(own.start).filter(|length| LENGTHS.contains(length))?;
        let code = is_whole.then(|| memory.read_vec(own.start, usize::try_from(length).ok()?).ok());
        Some((arch::jumps_by_table(&code??, own.start), own))
    };
    // One that is followed by room may look longer than it is.
    let is_long = |range: &Range<RemoteAddr>| {
        range.end.offset_from(range.start).is_some_and(|length| length >= LENGTHS.start)
    };
    let long = table.starts().filter(is_long).take(FUNCTIONS);
    let mut found: Vec<_> = long.filter_map(|range| of_table(&range)).collect();
    found.sort_by_key(|(jumps, _)| std::cmp::Reverse(*jumps));
    let second = found.get(1).map_or(0, |(jumps, _)| *jumps);
    let (jumps, own) = found.into_iter().next()?;
    (jumps >= JUMPS && jumps >= second * TIMES).then_some(own)
}
