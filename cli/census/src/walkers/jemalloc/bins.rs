//! What slabs of each small class are, and how many bins it has: a table of the allocator's, found by the sizes
//! that it tells.

use std::ops::Range;

use crate::{Moment, Window};

use super::classes::Quantum;

/// Bytes of a row: region, slab, then regions and bins in half a word each, then two words for bitmaps.
const ROW: u64 = 40;
const PAGE: u64 = 4096;
/// No more bins of one class are allowed.
const MOST: u64 = 64;

/// By class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins(pub Vec<Row>);

/// A small class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The bytes of a region.
    pub bytes: u64,
    /// The bytes of a slab.
    pub slab: u64,
    /// The regions of a slab.
    pub regions: u64,
    /// How many bins an arena has.
    pub shards: u64,
}

impl Bins {
    /// The bins of an arena.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|row| row.shards).sum()
    }

    /// In the variables of a module.
    pub fn find(moment: &Moment<'_>, data: &[Range<u64>], quantum: Quantum) -> Option<Self> {
        let parts = data.iter().flat_map(|range| moment.present(range));
        parts.into_iter().find_map(|part| {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            part.step_by(8).find_map(|at| {
                let is_first = window.word(at) == quantum.bytes(0);
                is_first.then(|| Self::read(moment, at, quantum))?
            })
        })
    }

    fn read(moment: &Moment<'_>, at: u64, quantum: Quantum) -> Option<Self> {
        let row = |class: u32| {
            let at = at + ROW * u64::from(class);
            let bytes = quantum.bytes(class)?;
            let slab = moment.word(at + 8)?;
            let counts = moment.word(at + 16)?;
            let (regions, bins) = (counts & 0xffff_ffff, counts >> 32);
            let is_row = moment.word(at)? == bytes
                && slab.is_multiple_of(PAGE)
                && regions > 0
                && slab / bytes == regions
                && (1..=MOST).contains(&bins);
            is_row.then_some(Row { bytes, slab, regions, shards: bins })
        };
        (0..quantum.small()).map(row).collect::<Option<_>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn a_table_of_sizes_is_found_among_other_words() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x20000);
        // Looks like the first row, and is none.
        memory.write(0x10010, 8);
        for class in 0..36 {
            let at = 0x11008 + ROW * u64::from(class);
            let bytes = Quantum::Sixteen.bytes(class).unwrap();
            memory.write(at, bytes);
            memory.write(at + 8, 57344);
            memory.write(at + 16, (57344 / bytes) | (u64::from(class % 2 + 1) << 32));
        }
        let moment = memory.moment();
        let bins = Bins::find(&moment, std::slice::from_ref(&(0x10000..0x20000)), Quantum::Sixteen);
        let bins = bins.unwrap();
        assert_eq!((bins.0.len(), bins.count()), (36, 54));
        let row = bins.0[3];
        assert_eq!((row.bytes, row.slab, row.regions, row.shards), (48, 57344, 1194, 2));
        assert_eq!(
            Bins::find(&moment, std::slice::from_ref(&(0x10000..0x20000)), Quantum::Eight),
            None
        );
    }
}
