//! A process between two sendings: the profiles that are sent of it.

use heapattach_export::{Names, RowProfile, StackRow, TYPES, write_rows};
use heapattach_ledger::Ledger;
use heapattach_text::quantity::count;

use crate::fold::fold;

/// What a backend takes of one profile.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Samples.
    pub samples: usize,
    /// Bytes before they are compressed.
    pub bytes: usize,
}

/// What happened in a time, with what is in use at its end.
#[derive(Debug)]
pub struct Window<'a> {
    /// The names.
    pub ledger: &'a Ledger,
    /// Values of [`TYPES`], those that grow as they came in the window.
    pub rows: &'a [StackRow],
    /// When it ended, since 1970.
    pub time_nanos: u64,
    /// How long it was.
    pub duration_nanos: u64,
    /// What is to be said beside.
    pub notes: &'a [String],
    /// Who names code.
    pub names: Names,
}

/// Columns of [`TYPES`].
pub type Columns = &'static [usize];
/// What was allocated.
pub const ALLOCATED: Columns = &[0, 1, 4];
/// What is in use.
pub const LIVE: Columns = &[2, 3, 5];
/// Both.
pub const BOTH: Columns = &[0, 1, 2, 3, 4, 5];

impl Window<'_> {
    /// A profile of these columns, the bytes of `default` first; of mapped pages nothing is said if there are none.
    pub fn pprof(
        &self,
        columns: Columns,
        default: &str,
        is_window: bool,
        limits: Limits,
    ) -> Vec<u8> {
        let has_pages = self.ledger.total.mapped > 0;
        let columns: Vec<_> = columns.iter().copied().filter(|&at| at < 4 || has_pages).collect();
        let types: Vec<_> = columns.iter().map(|&at| TYPES[at]).collect();
        let chosen = |row: &StackRow| StackRow {
            place: row.place,
            values: columns.iter().map(|&at| row.values.get(at).copied().unwrap_or(0)).collect(),
        };
        let rows: Vec<_> = self.rows.iter().map(chosen).collect();
        let mut most = limits.samples;
        loop {
            let (folded, together) = fold(rows.clone(), most);
            let mut notes = self.notes.to_vec();
            if together > 0 {
                let (together, all) = (count(together as u64), count(rows.len() as u64));
                notes.push(format!(
                    "the {together} smallest of {all} stacks are together in `other`"
                ));
            }
            let profile = RowProfile {
                types: &types,
                default,
                rows: &folded,
                time_nanos: self.time_nanos,
                duration_nanos: if is_window { self.duration_nanos } else { 0 },
                notes: &notes,
                names: self.names,
            };
            let mut bytes = Vec::new();
            // To memory: nothing can go wrong.
            let size = write_rows(self.ledger, &profile, &mut bytes).unwrap_or(0);
            if size <= limits.bytes || folded.len() <= 1 {
                return bytes;
            }
            most = (folded.len() as u64 * limits.bytes as u64 / size as u64 * 9 / 10)
                .min(folded.len() as u64 - 1)
                .try_into()
                .unwrap_or(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use heapattach_export::rows;
    use heapattach_ledger::{EndReason, Row, sample};

    use super::*;

    fn inflated(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn a_profile_is_not_larger_than_is_taken() {
        let mut ledger = sample::ledger();
        let first = ledger.rows[0].clone();
        for at in 0..5000 {
            let mut function = ledger.functions[1].clone();
            function.name = format!("function_{at}_{}", "x".repeat(100));
            ledger.functions.push(function);
            let mut location = ledger.locations[1].clone();
            location.address = 1 << 40 | at;
            location.lines.truncate(1);
            location.lines[0].function = u32::try_from(ledger.functions.len()).unwrap() - 1;
            ledger.locations.push(location);
            let stack = u32::try_from(ledger.stacks.count()).unwrap();
            let location = u32::try_from(ledger.locations.len()).unwrap() - 1;
            ledger.stacks.push(&[location], EndReason::Outermost, 0);
            ledger.rows.push(Row { stack, ..first.clone() });
            ledger.total.merge(&first);
        }
        let rows = rows(&ledger);
        let notes = [];
        let window = Window {
            ledger: &ledger,
            rows: &rows,
            time_nanos: 1,
            duration_nanos: 2,
            notes: &notes,
            names: Names::Ours,
        };
        for bytes in [10, 5_000, 100_000, 4 << 20] {
            let limits = Limits { samples: 16_000, bytes };
            let made = inflated(&window.pprof(BOTH, "inuse_space", true, limits));
            // Of nothing but `other` there is a least.
            assert!(made.len() <= bytes.max(1500), "{bytes}: {}", made.len());
            let is_folded = made.windows(5).any(|part| part == b"other") && bytes < 500_000;
            assert_eq!(is_folded, bytes < 500_000, "{bytes}");
        }
    }
}
