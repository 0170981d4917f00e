//! Free chunks of an arena that its threads use meanwhile.

use std::collections::BTreeMap;

use crate::{
    Moment,
    counters::statistics::{Class, Numbers},
};

/// Bins of an arena; the first is that of unsorted chunks.
const BINS: u64 = 127;
/// Fast bins, before the top, where a release has any.
const FAST: u64 = 0x60;
const FAST_BINS: u64 = 10;
/// What is before the bytes of a block.
const HEAD: u64 = 16;
/// How often a list that changed is followed.
const ATTEMPTS: u32 = 8;
/// Chunks that are looked at, in all arenas' lists and attempts of one look.
const MOST: u32 = 1 << 20;
/// Where a chunk can be.
const LARGEST: u64 = 1 << 47;

/// What is free in an arena.
#[derive(Debug, Default)]
pub struct Free {
    /// Chunks of fast bins, and their bytes.
    pub fast: [u64; 2],
    /// Chunks of other bins, and their bytes.
    pub rest: [u64; 2],
    /// By bin: the largest chunk, and the smallest, their number and bytes.
    pub classes: Vec<Class>,
    /// Whether links of fast bins are mangled, if there are any.
    pub is_mangled: Option<bool>,
}

impl Free {
    /// Of the arena with these bins; `None` if its lists change too fast to be followed.
    pub fn of(moment: &Moment<'_>, bins: u64, before: u64) -> Option<Self> {
        let (mut free, mut left) = (Self::default(), MOST);
        if before > FAST {
            for bin in 0..FAST_BINS {
                let head = bins - FAST + 8 * bin;
                let size = 32 + HEAD * bin;
                let (count, is_mangled) =
                    (0..ATTEMPTS).find_map(|_| fast(moment, head, size, &mut left))?;
                free.fast[0] += count;
                free.fast[1] += count * size;
                free.is_mangled = free.is_mangled.or(is_mangled);
            }
        }
        for bin in 0..BINS {
            let at = bins + 16 * bin - HEAD;
            let sizes = (0..ATTEMPTS).find_map(|_| ring(moment, at, &mut left))?;
            let count: u64 = sizes.values().sum();
            let bytes = sizes.iter().map(|(size, count)| size.saturating_mul(*count));
            let bytes = bytes.fold(0, u64::saturating_add);
            free.rest[0] += count;
            free.rest[1] = free.rest[1].saturating_add(bytes);
            // Unsorted ones are of any size.
            if bin == 0 {
                continue;
            }
            if let (Some((least, _)), Some((most, _))) =
                (sizes.first_key_value(), sizes.last_key_value())
            {
                let numbers = [("from", *least), ("count", count), ("total", bytes)];
                let class = Class { size: *most, numbers: numbers.into(), mutex: Numbers::new() };
                free.classes.push(class);
            }
        }
        Some(free)
    }
}

/// Chunks of a bin by size, if they lead round to it.
fn ring(moment: &Moment<'_>, bin: u64, left: &mut u32) -> Option<BTreeMap<u64, u64>> {
    let mut sizes = BTreeMap::new();
    let mut before = bin;
    let mut at = moment.words(bin + HEAD, 1)?[0];
    // One that was never used at all is zero.
    while at != bin && at != 0 {
        *left = left.checked_sub(1)?;
        let is_place = at.is_multiple_of(HEAD) && at < LARGEST;
        let words = is_place.then(|| moment.words(at + 8, 3))??;
        let [size, next, back] = *words.first_chunk()?;
        if back != before || size < 32 {
            return None;
        }
        *sizes.entry(size & !7).or_default() += 1;
        before = at;
        at = next;
    }
    // A chunk that came or went meanwhile changed an end.
    let is_same = moment.words(bin + HEAD, 2)?[1] == if at == 0 { 0 } else { before };
    is_same.then_some(sizes)
}

/// How many a fast bin has, and whether its links are mangled.
fn fast(moment: &Moment<'_>, head: u64, size: u64, left: &mut u32) -> Option<(u64, Option<bool>)> {
    let first = moment.words(head, 1)?[0];
    let (mut at, mut count, mut is_mangled) = (first, 0, None);
    while at != 0 {
        *left = left.checked_sub(1)?;
        let is_place = at.is_multiple_of(HEAD) && at < LARGEST;
        let words = is_place.then(|| moment.words(at + 8, 2))??;
        if words[0] & !7 != size {
            return None;
        }
        let (link, place) = (words[1], (at + HEAD) >> 12);
        // The end tells by itself, for no mangled link is zero; so does a link that leads nowhere as it is.
        let is_own = |to: u64| to == 0 || to.is_multiple_of(HEAD) && moment.region(to).is_some();
        let mangled = is_mangled.unwrap_or_else(|| link != 0 && is_own(link ^ place));
        is_mangled = Some(mangled);
        at = if mangled { link ^ place } else { link };
        count += 1;
    }
    (moment.words(head, 1)?[0] == first).then_some((count, is_mangled))
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    const BINS_AT: u64 = 0x1_0200;

    fn arena() -> Synthetic {
        let mut memory = Synthetic::default();
        memory.map(0x1_0000..0x2_0000);
        for bin in 0..BINS {
            let at = BINS_AT + 16 * bin;
            memory.write(at, at - HEAD);
            memory.write(at + 8, at - HEAD);
        }
        memory
    }

    #[test]
    fn chunks_of_bins_and_fast_bins_are_counted() {
        let mut memory = arena();
        // Two in the third bin.
        let bin = BINS_AT + 16 * 2 - HEAD;
        for (at, word) in [
            (bin + 16, 0x1_4000),
            (bin + 24, 0x1_5000),
            (0x1_4008, 0x31),
            (0x1_4010, 0x1_5000),
            (0x1_4018, bin),
            (0x1_5008, 0x31),
            (0x1_5010, bin),
            (0x1_5018, 0x1_4000),
            // Two in the first fast bin, with mangled links.
            (BINS_AT - FAST, 0x1_6000),
            (0x1_6008, 0x21),
            (0x1_6010, 0x1_7000 ^ 0x16),
            (0x1_7008, 0x21),
            (0x1_7010, 0x17),
        ] {
            memory.write(at, word);
        }
        let free = Free::of(&memory.moment(), BINS_AT, 0x70).unwrap();
        assert_eq!((free.fast, free.rest, free.is_mangled), ([2, 64], [2, 96], Some(true)));
        assert_eq!((free.classes.len(), free.classes[0].size), (1, 48));
        // A link that leads elsewhere is no answer.
        memory.write(0x1_5018, 0);
        assert!(Free::of(&memory.moment(), BINS_AT, 0x70).is_none());
    }

    #[test]
    fn lists_that_never_end_are_no_answer() {
        let mut memory = arena();
        let bin = BINS_AT - HEAD;
        memory.write(bin + 16, 0x1_4000);
        memory.write(0x1_4008, 0x31);
        memory.write(0x1_4010, 0x1_4000);
        memory.write(0x1_4018, 0x1_4000);
        assert!(Free::of(&memory.moment(), BINS_AT, 0x18).is_none());
    }
}
