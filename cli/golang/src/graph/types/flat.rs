//! A type as what is in a value of it, wherever that is nested: pointers by their offset.

use std::rc::Rc;

use super::{Descriptor, Kind, Types};

/// Structures and arrays are nested so deep at most.
const DEEPEST: u32 = 40;
/// So many pointers of one value are told; what lies behind has no type.
const MOST: usize = 1 << 14;

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One value of the type.
    One,
    /// An array of such values.
    Many,
    /// The bytes of a string.
    Text,
    /// What an interface has: the word before, which is no pointer to an object, tells its type, which is the slot's where
    /// that word was read.
    Held,
    /// The head of a map of the type.
    Map,
    /// A channel of the type.
    Chan,
    /// A function with what it closes over.
    Func,
    /// Anything.
    Unknown,
}

/// A pointer in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where.
    pub offset: u64,
    /// What it leads to.
    pub what: What,
    /// The type of that, or 0.
    pub of: u64,
}

/// The pointers of a value, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flat {
    /// They.
    pub slots: Vec<Slot>,
    /// Whether there are more than can be told.
    pub is_cut: bool,
}

impl Flat {
    /// The pointer at an offset.
    pub fn at(&self, offset: u64) -> Option<&Slot> {
        let index = self.slots.binary_search_by_key(&offset, |slot| slot.offset).ok()?;
        self.slots.get(index)
    }

    fn push(&mut self, offset: u64, what: What, of: u64) {
        if self.slots.len() < MOST {
            self.slots.push(Slot { offset, what, of });
        } else {
            self.is_cut = true;
        }
    }

    /// Adds those of a part of the value.
    fn extend(&mut self, at: u64, part: &Self) {
        for slot in &part.slots {
            self.push(at.saturating_add(slot.offset), slot.what, slot.of);
        }
        self.is_cut |= part.is_cut;
    }
}

impl Types<'_, '_> {
    /// The pointers of a value of a type.
    pub fn flat(&self, of: &Descriptor) -> Rc<Flat> {
        self.flat_within(of, 0)
    }

    fn flat_within(&self, of: &Descriptor, depth: u32) -> Rc<Flat> {
        if let Some(known) = self.flats.borrow().get(&of.at) {
            return Rc::clone(known);
        }
        let mut flat = Flat::default();
        // A damaged descriptor can contain itself: a part must be smaller than the whole.
        if of.pointer_bytes > 0 && depth < DEEPEST {
            self.fill(of, depth, &mut flat);
            flat.slots.sort_by_key(|slot| slot.offset);
            flat.slots.retain(|slot| slot.offset.saturating_add(8) <= of.size);
        }
        let flat = Rc::new(flat);
        self.flats.borrow_mut().insert(of.at, Rc::clone(&flat));
        flat
    }

    fn fill(&self, of: &Descriptor, depth: u32, flat: &mut Flat) {
        let element = || self.word(of.at, 48).unwrap_or(0);
        match of.kind {
            Kind::Plain => {}
            Kind::Pointer => flat.push(0, What::One, element()),
            Kind::Slice => flat.push(0, What::Many, element()),
            Kind::String => flat.push(0, What::Text, 0),
            Kind::Unsafe => flat.push(0, What::Unknown, 0),
            Kind::Func => flat.push(0, What::Func, of.at),
            Kind::Chan => flat.push(0, What::Chan, of.at),
            Kind::Map => flat.push(0, What::Map, of.at),
            Kind::Interface => flat.push(8, What::Held, 0),
            Kind::Array => {
                let Some(part) = self.element(of).filter(|part| part.size > 0) else { return };
                let inner = self.flat_within(&part, depth + 1);
                let count = self.word(of.at, 64).unwrap_or(0).min(of.size / part.size);
                for index in (0..count).take_while(|_| !inner.slots.is_empty()) {
                    flat.extend(index * part.size, &inner);
                    if flat.is_cut {
                        break;
                    }
                }
            }
            Kind::Struct => {
                let stated = self.stated(of);
                for (offset, part) in self.fields(of) {
                    if let (Kind::Unsafe, Some(of)) = (part.kind, stated) {
                        flat.push(offset, What::One, of);
                    } else if part.size <= of.size && part.at != of.at {
                        flat.extend(offset, &self.flat_within(&part, depth + 1));
                    }
                }
            }
        }
    }

    /// What the unsafe pointer of a structure leads to: `sync/atomic.Pointer` has an array without elements that says it.
    fn stated(&self, of: &Descriptor) -> Option<u64> {
        let is_empty = |part: &Descriptor| part.kind == Kind::Array && part.size == 0;
        let (_, part) = self.fields(of).find(|(_, part)| is_empty(part))?;
        let element = self.element(&part).filter(|element| element.kind == Kind::Pointer)?;
        self.word(element.at, 48)
    }

    /// The fields of a structure: where each lies, and its type.
    fn fields(&self, of: &Descriptor) -> impl Iterator<Item = (u64, Descriptor)> {
        let list = self.word(of.at, 56).unwrap_or(0);
        let count = self.word(of.at, 64).unwrap_or(0).min(MOST as u64);
        (0..count).map_while(move |index| {
            let at = list.checked_add(index * 24)?;
            let part = self.get(self.word(at, 8)?)?;
            Some((self.word(at, 16)?, part))
        })
    }

    /// The field of a structure that has an offset: its name, where it lies, and its type.
    pub fn field_at(&self, of: &Descriptor, offset: u64) -> Option<(String, u64, Descriptor)> {
        if of.kind != Kind::Struct {
            return None;
        }
        let list = self.word(of.at, 56)?;
        let count = self.word(of.at, 64)?.min(MOST as u64);
        for index in 0..count {
            let at = list.checked_add(index * 24)?;
            let (place, part) = (self.word(at, 16)?, self.get(self.word(at, 8)?)?);
            if (place..place.saturating_add(part.size)).contains(&offset) {
                let name = self.name_at(self.word(at, 0)?)?;
                return Some((name, place, part));
            }
        }
        None
    }
}
