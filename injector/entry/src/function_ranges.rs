//! How far each function reaches: by the unwind table, which stripped files have too, else by the
//! symbols.

use std::{cell::OnceCell, ops::Range};

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, LittleEndian, UnwindSection};

use super::{
    Hooked,
    image::{Image, Symbol},
};

/// Finds the function an address belongs to.
pub(super) struct FunctionRanges<'a, 'f> {
    image: &'a Image<'f>,
    unwind: Option<UnwindIndex<'f>>,
    /// Where there is no such index: every part of a function, sorted.
    listed: Vec<Range<u64>>,
    exported: Vec<Symbol>,
    /// What the caller knows from elsewhere.
    told: Vec<Symbol>,
    /// Sorted; read at the first address that the unwind table does not know.
    symbols: OnceCell<Vec<Symbol>>,
}

/// The table of `.eh_frame_hdr`, sorted by address.
struct UnwindIndex<'f> {
    /// Where the table's offsets count from.
    base: u64,
    /// Pairs of 32-bit offsets: a function, its entry in `.eh_frame`.
    rows: &'f [[u8; 8]],
    frames: EhFrame<gimli::EndianSlice<'f, LittleEndian>>,
    bases: BaseAddresses,
    frames_at: u64,
}

impl<'a, 'f> FunctionRanges<'a, 'f> {
    /// `hooked` may say of some functions how long they are.
    pub(super) fn new(image: &'a Image<'f>, hooked: &[Hooked<'_>]) -> Self {
        let mut exported = image.functions(false);
        exported.sort_unstable_by_key(|symbol| (symbol.at, symbol.size));
        let unwind = image.unwind_index().and_then(|at| UnwindIndex::new(image, at));
        let told = hooked.iter().map(|h| Symbol { at: h.address.get(), size: h.size }).collect();
        let listed = if unwind.is_none() { listed(image) } else { Vec::new() };
        Self { image, unwind, listed, exported, told, symbols: OnceCell::new() }
    }

    /// The whole of the function, or the part of one, that `at` belongs to. Where two tables
    /// disagree, the unwind table is right: it describes what the processor runs.
    pub(super) fn containing(&self, at: u64) -> Option<Range<u64>> {
        let unwind = self.unwind.as_ref().and_then(|unwind| unwind.containing(at));
        let listed = || {
            let next = self.listed.partition_point(|part| part.start <= at);
            self.listed.get(next.checked_sub(1)?).cloned()
        };
        let unwind = unwind.or_else(listed);
        unwind.filter(|range| range.contains(&at)).or_else(|| self.by_symbol(at))
    }

    /// Whether other modules can name a function that begins in `range`.
    pub(super) fn exports_any_of(&self, range: &Range<u64>) -> bool {
        let first = self.exported.partition_point(|symbol| symbol.at < range.start);
        self.exported.get(first).is_some_and(|symbol| symbol.at < range.end)
    }

    fn by_symbol(&self, at: u64) -> Option<Range<u64>> {
        let symbols = self.symbols.get_or_init(|| {
            let mut all = self.image.functions(true);
            all.extend(self.exported.iter().chain(&self.told));
            all.retain(|symbol| symbol.size > 0);
            // Of several symbols at one address the largest is looked at first.
            all.sort_unstable_by_key(|symbol| (symbol.at, symbol.size));
            all
        });
        let next = symbols.partition_point(|symbol| symbol.at <= at);
        let symbol = symbols.get(next.checked_sub(1)?)?;
        Some(symbol.at..symbol.at.checked_add(symbol.size)?).filter(|range| range.contains(&at))
    }
}

/// What the unwind entries say, one after the other.
fn listed(image: &Image<'_>) -> Vec<Range<u64>> {
    let Some((at, bytes)) = image.unwind_entries() else { return Vec::new() };
    let frames = EhFrame::new(bytes, LittleEndian);
    let bases = BaseAddresses::default().set_eh_frame(at);
    let mut entries = frames.entries(&bases);
    let mut parts = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let Ok(frame) = partial.parse(EhFrame::cie_from_offset) else { continue };
        // What the linker has dropped is said to lie at 0.
        if frame.initial_address() != 0 {
            parts.push(frame.initial_address()..frame.end_address());
        }
    }
    parts.sort_unstable_by_key(|part| part.start);
    parts
}

impl<'f> UnwindIndex<'f> {
    /// Reads the header at `at`: only the one encoding that linkers write, which is all that can be
    /// searched without decoding every row.
    fn new(image: &Image<'f>, at: u64) -> Option<Self> {
        let bytes = image.bytes_from(at)?;
        let (&[1, 0x1b, 0x03, 0x3b], rest) = bytes.split_first_chunk()? else { return None };
        let (pointer, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let frames_at = add(at.checked_add(4)?, pointer);
        let (rows, _) = rest.as_chunks();
        let rows = rows.get(..usize::try_from(u32::from_le_bytes(*count)).ok()?)?;
        let frames = EhFrame::new(image.bytes_from(frames_at)?, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(frames_at).set_eh_frame_hdr(at);
        Some(Self { base: at, rows, frames, bases, frames_at })
    }

    fn containing(&self, at: u64) -> Option<Range<u64>> {
        let next = self.rows.partition_point(|row| add(self.base, half(row, 0)) <= at);
        let row = self.rows.get(next.checked_sub(1)?)?;
        let offset = add(self.base, half(row, 4)).checked_sub(self.frames_at)?;
        let offset = EhFrameOffset(usize::try_from(offset).ok()?);
        let frame =
            self.frames.fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset).ok()?;
        Some(frame.initial_address()..frame.initial_address().checked_add(frame.len())?)
    }
}

fn half(row: &[u8; 8], at: usize) -> &[u8; 4] {
    row[at..].first_chunk().expect("a row has two halves")
}

fn add(base: u64, offset: &[u8; 4]) -> u64 {
    base.wrapping_add_signed(i32::from_le_bytes(*offset).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        arch::machine::MACHINE,
        model::{CODE, Model},
    };

    #[test]
    fn symbols_say_what_no_unwind_table_knows() {
        let file = Model::default().exports(0x10, &[0x90; 8]).function(0x20, &[0x90; 4]).build();
        let image = Image::parse(&file, &MACHINE).unwrap();
        let functions = FunctionRanges::new(&image, &[]);
        let whole = |offset: u64| functions.containing(CODE + offset);
        assert_eq!(whole(0x10), Some(CODE + 0x10..CODE + 0x18));
        assert_eq!(whole(0x17), whole(0x10));
        assert_eq!((whole(0xf), whole(0x18), whole(0x24)), (None, None, None));
        assert_eq!(whole(0x20), Some(CODE + 0x20..CODE + 0x24));
        assert!(functions.exports_any_of(&(CODE..CODE + 0x11)));
        assert!(!functions.exports_any_of(&(CODE + 0x20..CODE + 0x24)), "not a dynamic symbol");
    }

    #[test]
    fn the_unwind_table_of_libc_agrees_with_its_symbols() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).unwrap();
        let file = std::fs::read(&line[line.find('/').unwrap()..]).unwrap();
        let image = Image::parse(&file, &MACHINE).unwrap();
        let functions = FunctionRanges::new(&image, &[]);
        let unwind = functions.unwind.as_ref().unwrap();
        let symbols: Vec<_> = functions.exported.iter().filter(|symbol| symbol.size > 0).collect();
        let agree = |symbol: &&&Symbol| {
            unwind.containing(symbol.at) == Some(symbol.at..symbol.at + symbol.size)
        };
        let agreeing = symbols.iter().filter(agree).count();
        assert!(agreeing * 100 > symbols.len() * 95, "{agreeing} of {}", symbols.len());
    }
}
