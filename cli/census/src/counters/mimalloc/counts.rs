//! What `mi_stats_print` prints of the process: a row of counts, found by what must hold in each of them.
//!
//! Until 2.1 a count is what was added and taken away, the largest and the present value; from 2.2 on what was
//! added, the largest and the present value, behind two words that tell the size and the version of the row.

use std::ops::Range;

use crate::{Moment, Window, counters::statistics::Numbers};

const PAGE: u64 = 4096;
/// The bytes of a row that tells its size.
const SIZES: Range<u64> = 512..1 << 16;
/// Its version.
const VERSIONS: Range<u64> = 1..10;

/// Names of one count: in all, the largest, the present value.
type Names = [&'static str; 3];

const SEGMENTS: Names = ["segments.total", "segments.peak", "segments.current"];
const PAGES: Names = ["pages.total", "pages.peak", "pages.current"];
const RESERVED: Names = ["reserved.total", "reserved.peak", "reserved.current"];
const COMMITTED: Names = ["committed.total", "committed.peak", "committed.current"];
const RESET: Names = ["reset.total", "reset.peak", "reset.current"];
const PURGED: Names = ["purged.total", "purged.peak", "purged.current"];
const TOUCHED: Names = ["page_committed.total", "page_committed.peak", "page_committed.current"];
const LEFT: Names =
    ["segments_abandoned.total", "segments_abandoned.peak", "segments_abandoned.current"];
const LEFT_PAGES: Names =
    ["pages_abandoned.total", "pages_abandoned.peak", "pages_abandoned.current"];
const THREADS: Names = ["threads.total", "threads.peak", "threads.current"];

/// Rows until 2.1, the newest first.
const OLD: [&[Names]; 2] = [
    &[SEGMENTS, PAGES, RESERVED, COMMITTED, RESET, PURGED, TOUCHED, LEFT, LEFT_PAGES, THREADS],
    &[SEGMENTS, PAGES, RESERVED, COMMITTED, RESET, TOUCHED, LEFT, LEFT_PAGES, THREADS],
];
/// Rows that tell their version.
const NEW: [Names; 8] = [PAGES, RESERVED, COMMITTED, RESET, PURGED, TOUCHED, LEFT_PAGES, THREADS];
/// Versions before this one count what was reset and purged as they do all else; later ones only add.
const ADDS: u64 = 4;
/// From this one on the process's row has what it has of the system alone: all else is counted by each heap.
const SHARED: u64 = 5;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// Until 2.1: which of the rows, and where.
    Old(usize, u64),
    /// From 2.2 on: the version, and where counts begin.
    New(u64, u64),
}

impl Counts {
    /// The row of the module that has reserved most. What is of an old release cannot be told by its counts
    /// alone: `releases` are those that its pages fit.
    pub fn find(moment: &Moment<'_>, data: &[Range<u64>], releases: &str) -> Option<Self> {
        let old = usize::from(releases.starts_with("2.0"));
        let has_none = releases.contains("2.4");
        let mut best: Option<(u64, Self)> = None;
        for part in data.iter().flat_map(|range| moment.present(range)) {
            let mut window = Window::new(moment, part.clone(), 1 << 16);
            for at in part.step_by(8) {
                let Some(word) = window.word(at) else { break };
                let version = window.word(at.saturating_add(8)).unwrap_or(0);
                let is_new = SIZES.contains(&word) && word % 8 == 0 && VERSIONS.contains(&version);
                let found = match is_new {
                    true => Self::New(version, at + 16),
                    // A few segments were made, which have pages of the system.
                    false if (1..1 << 32).contains(&word) => Self::Old(old, at),
                    false => match has_none.then(|| Self::untold(&mut window, at)).flatten() {
                        Some(found) => found,
                        None => continue,
                    },
                };
                let Some(numbers) = found.read(moment) else { continue };
                let reserved = numbers[RESERVED[0]];
                if best.is_none_or(|(most, _)| reserved > most) {
                    best = Some((reserved, found));
                }
            }
        }
        best.map(|(_, found)| found)
    }

    /// A row whose two first words are zero, as 2.2 to 2.4 have them once the process's own is set up. Which
    /// of the versions it is, is told by where the count of threads fits.
    fn untold(window: &mut Window<'_, '_>, at: u64) -> Option<Self> {
        let mut word = |index: u64| window.word(at + 8 * index);
        let is_memory = |bytes: u64| bytes > 0 && bytes.is_multiple_of(PAGE);
        let is_row = word(0)? == 0 && word(1)? == 0 && is_memory(word(5)?) && is_memory(word(8)?);
        let mut is_threads = |index: u64| {
            let (total, peak, current) = (word(index)?, word(index + 1)?, word(index + 2)?);
            Some((1..1 << 32).contains(&total) && (1..=total).contains(&peak) && current <= peak)
        };
        is_row.then_some(())?;
        [(ADDS, 19), (1, 23)].into_iter().find_map(|(version, threads)| {
            is_threads(threads)?.then_some(Self::New(version, at + 16))
        })
    }

    /// As they are now; `None` if these are no counts.
    pub fn read(self, moment: &Moment<'_>) -> Option<Numbers> {
        let mut numbers = Numbers::new();
        match self {
            Self::Old(row, at) => {
                let names = OLD[row];
                let words = moment.words(at, 4 * names.len())?;
                for (names, count) in names.iter().zip(words.as_chunks::<4>().0) {
                    let [added, taken, peak, current] = *count;
                    if added.wrapping_sub(taken) != current || !is_likely(added, peak) {
                        return None;
                    }
                    numbers.extend(names.iter().copied().zip([added, peak, current]));
                }
            }
            Self::New(version, at) => {
                let mut at = at;
                for names in NEW {
                    let adds = version >= ADDS && (names == RESET || names == PURGED);
                    let words = moment.words(at, if adds { 1 } else { 3 })?;
                    at += 8 * words.len() as u64;
                    numbers.extend(names.into_iter().zip(words));
                }
                let is_count = |names: &Names| {
                    let of = |name: &str| numbers.get(name).copied().unwrap_or(0);
                    is_likely(of(names[0]), of(names[1]))
                        && of(names[2]).cast_signed() <= of(names[1]).cast_signed()
                };
                if !NEW.iter().all(is_count) {
                    return None;
                }
            }
        }
        let is_memory = |names: Names| {
            let total = numbers.get(names[0]).copied().unwrap_or(0);
            total > 0 && total.is_multiple_of(PAGE)
        };
        let threads = numbers.get(THREADS[0]).copied().unwrap_or(0);
        let is_row = is_memory(RESERVED) && is_memory(COMMITTED) && threads < 1 << 32;
        if matches!(self, Self::New(version, _) if version >= SHARED) {
            numbers.retain(|name, _| {
                [RESERVED, COMMITTED, RESET, PURGED].iter().any(|names| names.contains(name))
            });
        }
        is_row.then_some(numbers)
    }
}

/// Whether so much can have been added, and be the largest.
fn is_likely(added: u64, peak: u64) -> bool {
    let limit = 1 << 56;
    // Threads merge what they counted themselves, in any order: the largest may be below nothing.
    added < limit && (peak < limit || peak.cast_signed() > -limit.cast_signed())
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    const HERE: Range<u64> = 0x1_0000..0x2_0000;

    #[test]
    fn rows_of_old_releases_are_found_by_their_differences() {
        let mut memory = Synthetic::default();
        memory.map(HERE);
        let counts = [(3, 1), (9, 2), (64 << 20, 0), (32 << 20, 4096), (0, 0), (0, 0), (7, 0)];
        for (at, (added, taken)) in (0x1_0108..).step_by(32).zip(counts) {
            let words = [added, taken, added, added - taken];
            (at..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        }
        let moment = memory.moment();
        let found = Counts::find(&moment, std::slice::from_ref(&HERE), "2.1.0 to 2.1.2").unwrap();
        assert_eq!(found, Counts::Old(0, 0x1_0108));
        assert_eq!(found.read(&moment).unwrap()["committed.current"], (32 << 20) - 4096);
        memory.write(0x1_0110, 0);
        assert_eq!(
            Counts::find(&memory.moment(), std::slice::from_ref(&HERE), "2.1.0 to 2.1.2"),
            None
        );
    }

    #[test]
    fn rows_of_new_releases_tell_their_version() {
        let mut memory = Synthetic::default();
        memory.map(HERE);
        let words = [2048, 4, 9, 8, 7, 64 << 20, 64 << 20, 1 << 20, 4096, 4096, 4096, 5, 6];
        (0x1_0208..).step_by(8).zip(words).for_each(|(at, word)| memory.write(at, word));
        let moment = memory.moment();
        let found = Counts::find(&moment, std::slice::from_ref(&HERE), "2.1.0 to 2.1.2").unwrap();
        let numbers = found.read(&moment).unwrap();
        assert_eq!((numbers["reserved.current"], numbers["purged.total"]), (1 << 20, 6));
    }
}
