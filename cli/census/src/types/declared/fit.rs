//! Whether a block can be of a type: its length, and what the type says are pointers.

use heapattach_reach::Blocks;
use heapattach_symbols::declared::{Kind, Type, TypeId};

use crate::Moment;

use super::model::Model;

/// Elements of an array that are looked at.
const LOOKED_AT: u64 = 64;
/// An array has at least so many pointers, besides those of its first element, that lead to what they should.
const LEADS: u64 = 2;
/// Addresses of a program are larger: what is smaller is a number that stands for something.
const LOW: u64 = 1 << 12;
/// What glibc adds at most; its smallest block.
const STEP: u64 = 16;
const SMALLEST: u64 = 24;
/// A large block can be a mapping of its own, which ends with a page.
const LARGE: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// How a block has values of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// One, with which it begins.
    One,
    /// As many as it has room for.
    Many,
}

/// What is requested for that.
pub(super) struct Fit<'a, 'm> {
    pub moment: &'a Moment<'m>,
    pub blocks: &'a Blocks,
    pub model: &'a Model,
    /// Whether an allocator has size classes that are further apart than 16 bytes.
    pub has_classes: bool,
}

impl Fit<'_, '_> {
    /// How, if it can be.
    pub fn of(&self, at: u64, size: u64, of: TypeId) -> Option<Form> {
        let own = self.model.size(of);
        if own == 0 || own > size || !self.model.names(of) {
            return None;
        }
        if self.model.is_number(of) {
            return Some(Form::Many);
        }
        let is_structure = matches!(
            self.model.get(of),
            Some(Type { kind: Kind::Structure(_) | Kind::Choice(..) | Kind::Vector(_), .. })
        );
        if is_structure && (self.is_room_of(own, size) || self.model.is_open(of)) {
            return self.is_plausible(at, of).then_some(Form::One);
        }
        self.are_many(at, size, of, own).then_some(Form::Many)
    }

    /// Whether a block of this size is what an allocator makes of so many bytes.
    pub fn is_room_of(&self, bytes: u64, size: u64) -> bool {
        let Some(rest) = size.checked_sub(bytes) else { return false };
        let is_mapped = size >= LARGE && rest < PAGE;
        rest < STEP || size <= SMALLEST || is_mapped || self.has_classes && rest < size / 4
    }

    /// Whether the pointers of a value can be pointers.
    fn is_plausible(&self, at: u64, of: TypeId) -> bool {
        self.model.slots(of).iter().all(|slot| {
            let Some(to) = slot.to.filter(|_| slot.array.is_none()) else { return true };
            let word = at.checked_add(slot.offset).and_then(|at| self.moment.word(at));
            word.is_some_and(|word| self.leads(word, to) != Leads::Wrong)
        })
    }

    /// Whether it is an array: each pointer in it that is not null leads to what it should, or to nothing that
    /// is known, and there are enough of them. Elements without pointers show nothing.
    fn are_many(&self, at: u64, size: u64, of: TypeId, own: u64) -> bool {
        let slots = self.model.slots(of);
        let count = size / own;
        if count < 2
            || !self.is_room_of(count * own, size)
            || !slots.iter().any(|s| s.to.is_some() && s.array.is_none())
        {
            return false;
        }
        let (step, mut right) = (count.div_ceil(LOOKED_AT), 0);
        // Where few elements are used, those that are have to be found.
        let all = if own == 8 { 1 } else { step };
        for index in (0..count).step_by(usize::try_from(all).unwrap_or(usize::MAX)) {
            for slot in slots.iter() {
                let Some(to) = slot.to.filter(|_| slot.array.is_none()) else { continue };
                let place = at.checked_add(index * own).and_then(|at| at.checked_add(slot.offset));
                match place.and_then(|at| self.moment.word(at)).map(|word| self.leads(word, to)) {
                    Some(Leads::Right) => right += u64::from(index > 0),
                    Some(Leads::Nowhere) => {}
                    Some(Leads::Wrong) | None => return false,
                }
            }
        }
        right >= LEADS
    }

    fn leads(&self, word: u64, to: TypeId) -> Leads {
        if word < LOW {
            return Leads::Nowhere;
        }
        if let Some(block) = self.blocks.containing(word) {
            let block = self.blocks.get(block);
            let (own, room) = (self.model.size(to), block.at.saturating_add(block.size) - word);
            return match own {
                0 => Leads::Nowhere,
                _ if room < own => Leads::Wrong,
                // A byte is everywhere.
                _ if own >= 8
                    && word == block.at
                    && (self.is_room_of(own, block.size) || self.model.is_open(to)) =>
                {
                    Leads::Right
                }
                1 if word == block.at => Leads::Right,
                _ => Leads::Nowhere,
            };
        }
        match self.moment.region(word) {
            Some(region) if region.readable => Leads::Nowhere,
            _ => Leads::Wrong,
        }
    }
}

/// What a word is that should be a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// To a block that is as long as it should be.
    Right,
    /// It is null, or leads to what is not known.
    Nowhere,
    /// It is no pointer, or leads to something shorter.
    Wrong,
}
