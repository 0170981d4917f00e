//! mallocng's variables, found by its secret: the same word is in them and in every area of books.

use std::{collections::BTreeMap, ops::Range};

use crate::{Moment, Window};

use super::group::Group;

/// In the variables: the first area of books.
const AREAS: u64 = 56;
/// In the variables: slots of the groups of each class.
const USAGE: u64 = 464;
/// Classes of slots; larger blocks have a mapping each.
pub const CLASSES: u32 = 48;
/// The bytes of an area.
const AREA: u64 = 4096;
/// In an area: the books of groups, and the bytes of each.
const SLOTS: u64 = 24;
const SLOT: u64 = 40;

/// The variables.
#[derive(Debug)]
pub struct Context {
    /// Which module has them, by index.
    pub image: usize,
    /// Areas of books, in the order in which they lead to each other.
    pub areas: Vec<u64>,
    /// By class: slots, as it counts them.
    pub usage: Vec<u64>,
    /// Whether the areas could be followed to their end.
    pub is_whole: bool,
}

/// Those of all modules: a process has one, or a static program with its own beside.
pub fn contexts(moment: &Moment<'_>) -> Vec<Context> {
    let images = moment.images().iter().enumerate();
    images.filter_map(|(number, image)| of_module(moment, number, &image.data)).collect()
}

fn of_module(moment: &Moment<'_>, image: usize, data: &[Range<u64>]) -> Option<Context> {
    data.iter().flat_map(|range| moment.present(range)).find_map(|part| {
        let mut window = Window::new(moment, part.clone(), 1 << 16);
        part.step_by(8).find_map(|at| {
            let area = window.word(at.checked_add(AREAS)?)?;
            let is_place = area >= AREA && area.is_multiple_of(AREA) && area < 1 << 47;
            let secret = is_place.then(|| window.word(at))?.filter(|secret| *secret != 0)?;
            (moment.word(area) == Some(secret)).then(|| read(moment, image, at, secret))?
        })
    })
}

fn read(moment: &Moment<'_>, image: usize, at: u64, secret: u64) -> Option<Context> {
    let private = moment.regions().iter().filter(|region| region.is_private_memory());
    let mut left = private.map(|region| region.bytes() / AREA).sum::<u64>();
    let (mut areas, mut next) = (Vec::new(), moment.word(at + AREAS)?);
    while next != 0 && left > 0 {
        left -= 1;
        if moment.word(next) != Some(secret) {
            break;
        }
        areas.push(next);
        next = moment.word(next.checked_add(8)?)?;
    }
    let usage = moment.words(at + USAGE, CLASSES as usize)?;
    // Another word with the same value would not have this behind it.
    let is_likely = usage.iter().all(|slots| *slots < 1 << 40) && !areas.is_empty();
    is_likely.then_some(Context { image, areas, usage, is_whole: next == 0 })
}

impl Context {
    /// All groups, by where they begin; and how many books lead to none.
    pub fn groups(&self, moment: &Moment<'_>) -> (BTreeMap<u64, Group>, u64) {
        let (mut groups, mut broken) = (BTreeMap::new(), 0);
        for area in &self.areas {
            let slots = moment.word(area + SLOTS - 8).unwrap_or(0) & 0xffff_ffff;
            for slot in 0..slots.min((AREA - SLOTS) / SLOT) {
                let books = area + SLOTS + SLOT * slot;
                // Of those that are not in use this word is 0.
                let Some(at) = moment.word(books + 16).filter(|at| *at != 0) else { continue };
                match Group::read(moment, books, at) {
                    Some(group) => drop(groups.insert(at, group)),
                    None => broken += 1,
                }
            }
        }
        (groups, broken)
    }
}

#[cfg(test)]
mod tests {
    use crate::{RegionKind, synthetic::Synthetic};

    use super::*;

    #[test]
    fn variables_are_found_by_their_secret() {
        let mut memory = Synthetic::default();
        memory.region(0x40_0000..0x40_2000, RegionKind::File, "/program");
        memory.map(0x10_0000..0x11_0000);
        let secret = 0x1234_5678_9abc_def0;
        memory.write(0x40_0110, secret);
        memory.write(0x40_0110 + AREAS, 0x10_1000);
        memory.write(0x40_0110 + USAGE, 7);
        memory.write(0x10_1000, secret);
        memory.write(0x10_1008, 0x10_2000);
        memory.write(0x10_2000, secret);
        let found = contexts(&memory.moment());
        let [context] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&context.areas[..], context.usage[0]), (&[0x10_1000, 0x10_2000][..], 7));
        assert!(context.is_whole);
        memory.write(0x10_2008, 0x10_1000);
        assert!(!contexts(&memory.moment())[0].is_whole, "areas that lead to each other end");
    }
}
