//! What `mallopt` and tunables set, and chunks with a mapping of their own: the variable `mp_`, found as the
//! walker finds it.

use std::collections::BTreeMap;

use crate::{
    Moment,
    counters::statistics::{Numbers, Value},
    walkers::glibc::{Found, Parameters},
};

/// How far before the word with the break's start the variable begins, where the count of mapped chunks lies
/// so far before it.
const STARTS: [(u64, u64); 2] = [(0x24, 96), (0x20, 72)];
/// What it begins with: the trim threshold, the top's pad, the threshold of mapping, arenas before processors
/// count, arenas at most.
const FIRST: [&str; 5] = ["trim_threshold", "top_pad", "mmap_threshold", "arena_test", "arena_max"];
/// What the third of them is at most, whatever is set.
const LARGEST: u64 = 1 << 40;

/// What is told.
#[derive(Debug, Default)]
pub struct Told {
    /// Settings, by the names of tunables.
    pub settings: BTreeMap<String, Value>,
    /// Mapped chunks.
    pub numbers: Numbers,
}

/// As it is now.
pub fn read(moment: &Moment<'_>, found: &Found) -> Option<Told> {
    // The variables as they are now, not as they were when they were found.
    let start = found.start;
    let words = moment.words(start, found.words.len())?;
    let found = Found { words, ..found.clone() };
    let (index, before) = Parameters::place(moment, &found)?;
    let at = start + 8 * index as u64;
    let half = |at: u64| {
        let word = moment.words(at & !7, 1)?[0];
        Some(if at.is_multiple_of(8) { word & 0xffff_ffff } else { word >> 32 })
    };
    let count = at - before;
    let sums = moment.words(at - 16, 6)?;
    let mut told = Told::default();
    told.numbers.extend([
        ("mmap.count", half(count)?),
        ("mmap.max_count", half(count + 8)?),
        ("mmap.size", sums[0]),
        ("mmap.max_size", sums[1]),
    ]);
    let mut set = |name: &str, value: u64| {
        told.settings.insert(name.to_owned(), Value::Number(value.cast_signed()));
    };
    set("mmap_max", half(count + 4)?);
    set("tcache_max", sums[4]);
    set("tcache_count", sums[5]);
    let (_, length) = STARTS.into_iter().find(|(own, _)| *own == before)?;
    let first = at.checked_sub(length).and_then(|at| moment.words(at, FIRST.len()));
    if let Some(first) = first.filter(|first| is_sound(first)) {
        for (name, value) in FIRST.iter().zip(first) {
            set(name, value);
        }
    }
    Some(told)
}

/// Whether these can be what the variable begins with.
fn is_sound(first: &[u64]) -> bool {
    let is_limit = |word: u64| word < LARGEST || word == u64::MAX;
    matches!(first, [trim, pad, threshold, test, most] if is_limit(*trim)
        && *pad < LARGEST
        && *threshold < LARGEST
        && *test < 1 << 16
        && *most < 1 << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_variable_begins_with_is_known_by_its_values() {
        assert!(is_sound(&[0x2_0000, 0x2_0000, 0x2_0000, 8, 0]));
        assert!(is_sound(&[u64::MAX, 0, 4096, 2, 1]));
        assert!(!is_sound(&[0x7f00_0000_0000, 0x2_0000, 0x2_0000, 8, 0]));
        assert!(!is_sound(&[0x2_0000, 0x2_0000, 8, 0]));
    }
}
