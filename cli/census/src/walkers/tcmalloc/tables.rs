//! tcmalloc's variables, found by what they hold: sizes of classes, central lists, the first thread cache.

use std::ops::Range;

use crate::{Moment, Window};

/// There can be so many classes.
pub const MOST_CLASSES: usize = 128;
/// The largest size of a class.
const LARGEST: u32 = 256 << 10;
/// Words of a central list before its number, and behind it: two spans of six words, two numbers.
const SLOTS: u64 = 8 * (1 + 6 + 6 + 2);
/// Slots of a central list, of two words each: the first and the last of some blocks.
const MOST_SLOTS: u64 = 64;
/// The bytes of a central list, and of those of releases to come.
const STRIDES: Range<u64> = 1200..1400;
/// Thread caches that are believed in.
const MOST_CACHES: usize = 1 << 16;
/// Bytes of a list of a thread cache.
const LIST: u64 = 32;

/// The sizes of classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

/// The central list of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Central {
    /// Its spans, as it counts them.
    pub spans: u64,
    /// Free blocks in spans, as it counts them.
    pub free: u64,
    /// Whether its lock is taken.
    pub is_taken: bool,
    slots: u64,
    used: u64,
}

/// The cache of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    at: u64,
    /// Bytes in it, as it counts them.
    pub bytes: u64,
}

impl Sizes {
    /// The table in a module.
    pub fn find(moment: &Moment<'_>, data: &[Range<u64>]) -> Option<Self> {
        Some(Self::place(moment, data)?.1)
    }

    /// The same, and where it is.
    pub fn place(moment: &Moment<'_>, data: &[Range<u64>]) -> Option<(u64, Self)> {
        // The first is none, the second 8 bytes, the third 16, in half a word each.
        in_data(moment, data, |at, word| {
            // The table may begin in the middle of a word.
            let at = match word {
                0x8_0000_0000 => at,
                0x10_0000_0008 => at.checked_sub(4)?,
                _ => return None,
            };
            Some((at, Self::read(moment, at)?))
        })
    }

    fn read(moment: &Moment<'_>, at: u64) -> Option<Self> {
        let bytes = |index: u64| {
            let at = at + 4 * index;
            let word = moment.word(at & !7)?;
            u32::try_from(if at.is_multiple_of(8) { word & 0xffff_ffff } else { word >> 32 }).ok()
        };
        if bytes(0)? != 0 || bytes(1)? != 8 || bytes(2)? != 16 {
            return None;
        }
        let mut sizes = vec![0, 8];
        for index in 2..MOST_CLASSES as u64 {
            match bytes(index)? {
                // What is behind the last class is never set.
                0 => break,
                size if u64::from(size) > *sizes.last()? && size <= LARGEST => {
                    sizes.push(u64::from(size));
                }
                _ => return None,
            }
        }
        (sizes.last() == Some(&u64::from(LARGEST))).then_some(Self(sizes))
    }

    /// The bytes of a class.
    pub fn of(&self, class: u32) -> Option<u64> {
        let size = self.0.get(usize::try_from(class).ok()?)?;
        (*size > 0).then_some(*size)
    }
}

/// The central lists, by class: an array whose elements have their own number.
pub fn centrals(moment: &Moment<'_>, data: &[Range<u64>], sizes: &Sizes) -> Option<Vec<Central>> {
    let (first, stride) = Central::place(moment, data, sizes)?;
    let classes = 0..sizes.0.len() as u64;
    classes.map(|class| Central::read(moment, first + stride * class)).collect()
}

/// Where the first central list has its number, and how many bytes behind it the next one has its own.
fn central_lists(moment: &Moment<'_>, data: &[Range<u64>], sizes: &Sizes) -> Option<(u64, u64)> {
    let classes = sizes.0.len() as u64;
    in_data(moment, data, |at, word| {
        // From the second element, for zeros are everywhere.
        let has_number =
            |stride: u64, class: u64| moment.word(at + stride * (class - 1)) == Some(class);
        let stride = (word == 1).then(|| {
            let mut strides = STRIDES.step_by(8);
            strides.find(|stride| (2..classes).all(|class| has_number(*stride, class)))
        })??;
        let first = at.checked_sub(stride).filter(|first| moment.word(*first) == Some(0))?;
        let is_whole =
            (0..classes).all(|class| Central::read(moment, first + stride * class).is_some());
        is_whole.then_some((first, stride))
    })
}

impl Central {
    /// Where they are.
    pub fn place(moment: &Moment<'_>, data: &[Range<u64>], sizes: &Sizes) -> Option<(u64, u64)> {
        central_lists(moment, data, sizes)
    }

    /// Lists that wait for threads to take them whole.
    pub fn waiting(&self) -> u64 {
        self.used.min(MOST_SLOTS)
    }

    /// The one whose number is at that address.
    pub fn read(moment: &Moment<'_>, at: u64) -> Option<Self> {
        let slots = at.checked_add(SLOTS)?;
        Some(Self {
            spans: moment.word(slots - 16)?,
            free: moment.word(slots - 8)?,
            is_taken: moment.word(at - 8)? & 0xffff_ffff != 0,
            slots,
            used: moment.word(slots + 16 * MOST_SLOTS)? & 0xffff_ffff,
        })
    }

    /// The first blocks of lists that are kept for threads to take whole.
    pub fn lists(&self, moment: &Moment<'_>) -> Option<Vec<u64>> {
        let is_sound = self.used <= MOST_SLOTS;
        is_sound.then_some(())?;
        (0..self.used).map(|slot| moment.word(self.slots + 16 * slot)).collect()
    }
}

/// All thread caches: one is found by the sizes of its lists, the others lead to each other.
pub fn caches(moment: &Moment<'_>, data: &[Range<u64>], sizes: &Sizes) -> Vec<Cache> {
    let found = in_data(moment, data, |_, word| is_cache(moment, word, sizes).then_some(word));
    let Some(first) = found else { return Vec::new() };
    let mut all = vec![first];
    if let Some(next) = next_field(moment, first, sizes) {
        for field in [next, next + 8] {
            let mut at = moment.word(first + field).unwrap_or(0);
            while at != 0 && all.len() < MOST_CACHES && !all.contains(&at) {
                if !is_cache(moment, at, sizes) {
                    break;
                }
                all.push(at);
                at = moment.word(at + field).unwrap_or(0);
            }
        }
    }
    let lists = LIST * MOST_CLASSES as u64;
    let bytes = |at: u64| moment.word(at + lists).unwrap_or(0) & 0xffff_ffff;
    all.into_iter().map(|at| Cache { at, bytes: bytes(at) }).collect()
}

fn is_cache(moment: &Moment<'_>, at: u64, sizes: &Sizes) -> bool {
    let is_place = at >= 4096 && at.is_multiple_of(8) && at < 1 << 47;
    let is_private = |at| moment.region(at).is_some_and(crate::Region::is_private_memory);
    let has_size = |(class, size): (u64, &u64)| {
        moment.word(at + LIST * class + 24).is_some_and(|word| word & 0xffff_ffff == *size)
    };
    is_place && is_private(at) && (1..).zip(sizes.0.iter().skip(1)).all(has_size)
}

/// Where a cache has the address of the next one, and behind it that of the one before.
fn next_field(moment: &Moment<'_>, at: u64, sizes: &Sizes) -> Option<u64> {
    let lists = LIST * MOST_CLASSES as u64;
    (lists..lists + 512).step_by(8).find(|field| {
        let next = moment.word(at + field).unwrap_or(0);
        let before = moment.word(at + field + 8).unwrap_or(0);
        let leads = |to: u64, field: u64| {
            to != 0
                && to != at
                && is_cache(moment, to, sizes)
                && moment.word(to + field) == Some(at)
        };
        leads(next, field + 8) || leads(before, *field)
    })
}

impl Cache {
    /// The first block and the number of blocks of every list that has any.
    pub fn lists(&self, moment: &Moment<'_>, sizes: &Sizes) -> Vec<(u64, u64)> {
        let lists = (1..sizes.0.len() as u64).filter_map(|class| {
            let at = self.at + LIST * class;
            Some((moment.word(at)?, moment.word(at + 8)? & 0xffff_ffff))
        });
        lists.filter(|(first, _)| *first != 0).collect()
    }
}

/// The first answer for a word among the variables of a module.
fn in_data<T>(
    moment: &Moment<'_>,
    data: &[Range<u64>],
    mut answer: impl FnMut(u64, u64) -> Option<T>,
) -> Option<T> {
    data.iter().flat_map(|range| moment.present(range)).find_map(|part| {
        let mut window = Window::new(moment, part.clone(), 1 << 16);
        part.step_by(8).find_map(|at| {
            let word = window.word(at)?;
            answer(at, word)
        })
    })
}

/// Whether three numbers follow each other among the variables: what the page heap counts.
pub fn has_counts(moment: &Moment<'_>, data: &[Range<u64>], counts: [u64; 3]) -> bool {
    let has = |at: u64, word: u64| {
        let follow = || {
            moment.word(at.saturating_add(8)) == Some(counts[1])
                && moment.word(at.saturating_add(16)) == Some(counts[2])
        };
        (word == counts[0] && follow()).then_some(())
    };
    in_data(moment, data, has).is_some()
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::*;

    #[test]
    fn a_table_of_sizes_may_begin_in_the_middle_of_a_word() {
        for start in [0x10010, 0x10014] {
            let mut memory = Synthetic::default();
            memory.map(0x10000..0x12000);
            let sizes = [0_u32, 8, 16, 32, 48, 262_144];
            for (at, size) in (start..).step_by(4).zip(sizes) {
                memory.write_bytes(at, &size.to_le_bytes());
            }
            let found = Sizes::find(&memory.moment(), std::slice::from_ref(&(0x10000..0x12000)));
            let found = found.unwrap();
            assert_eq!((found.0.len(), found.of(4), found.of(0)), (6, Some(48), None));
        }
    }

    #[test]
    fn central_lists_are_found_by_their_numbers() {
        let mut memory = Synthetic::default();
        memory.map(0x10000..0x30000);
        let sizes = Sizes(vec![0, 8, 16, 32, 64, 262_144]);
        for class in 0..6 {
            let at = 0x10110 + 1216 * class;
            memory.write(at, class);
            memory.write(at + SLOTS - 16, 10 + class);
        }
        let moment = memory.moment();
        let found = centrals(&moment, std::slice::from_ref(&(0x10000..0x30000)), &sizes).unwrap();
        let spans: Vec<_> = found.iter().map(|central| central.spans).collect();
        assert_eq!(spans, [10, 11, 12, 13, 14, 15]);
    }
}
