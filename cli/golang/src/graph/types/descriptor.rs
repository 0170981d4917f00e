//! A type as the runtime describes it: size, kind, name, and what it is made of.

use std::{cell::RefCell, ops::Range, rc::Rc};

use heapattach_census::Moment;

use super::{Flat, Mask};
use crate::graph::{
    layout::{Layout, Variables},
    quick_hash::QuickMap,
};

/// More modules than this no program has: plugins are modules.
const MOST_MODULES: usize = 256;
/// A longer name is cut off.
const LONGEST_NAME: usize = 512;
/// No value is larger.
const LARGEST: u64 = 1 << 40;
/// Between these are the addresses of a program.
const LEAST: u64 = 1 << 16;
const ADDRESSES: u64 = 1 << 47;
/// Descriptors that are kept.
const KEPT: usize = 1 << 20;

/// Flags of a descriptor.
const EXTRA_STAR: u8 = 2;
const ON_DEMAND: u8 = 16;
const DIRECT: u8 = 32;
const PROGRAM: u8 = 64;

/// What kind of type it is, as far as pointers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Numbers.
    Plain,
    /// An array.
    Array,
    /// A channel.
    Chan,
    /// A function.
    Func,
    /// An interface; whether it has methods.
    Interface,
    /// A map.
    Map,
    /// A pointer.
    Pointer,
    /// A slice.
    Slice,
    /// A string.
    String,
    /// A structure.
    Struct,
    /// An unsafe.Pointer.
    Unsafe,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1..=16 => Self::Plain,
            17 => Self::Array,
            18 => Self::Chan,
            19 => Self::Func,
            20 => Self::Interface,
            21 => Self::Map,
            22 => Self::Pointer,
            23 => Self::Slice,
            24 => Self::String,
            25 => Self::Struct,
            26 => Self::Unsafe,
            _ => return None,
        })
    }
}

/// The head of every descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// Where it is: it stands for the type.
    pub at: u64,
    /// Bytes of a value.
    pub size: u64,
    /// Of these, those up to the last pointer.
    pub pointer_bytes: u64,
    /// What it is.
    pub kind: Kind,
    /// Whether an interface has the value itself in its second word.
    pub is_direct: bool,
    /// Where the mask is, unless `is_program`.
    pub(super) mask: u64,
    /// Whether `mask` leads to where the mask will be once it was needed.
    pub(super) is_on_demand: bool,
    /// Whether `mask` leads to a program that makes the mask.
    pub(super) is_program: bool,
    has_extra_star: bool,
    name: i32,
}

/// The parts of modules that matter here.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// Descriptors, by module.
    pub types: Vec<Range<u64>>,
    /// All of each module.
    pub images: Vec<Range<u64>>,
}

impl Modules {
    /// Reads the list of modules.
    pub fn read(moment: &Moment<'_>, layout: &Layout, variables: &Variables) -> Self {
        let fields = &layout.module;
        let mut modules = Self::default();
        let mut at = variables.module;
        while at != 0 && modules.types.len() < MOST_MODULES {
            let range = |from: super::super::layout::Field, to: super::super::layout::Field| {
                Some(from.read(moment, at)?..to.read(moment, at)?)
            };
            let types = range(fields.types, fields.etypes);
            let image = range(fields.text, fields.end);
            let (Some(types), Some(image)) = (types, image) else { break };
            modules.types.push(types);
            modules.images.push(image);
            at = fields.next.read(moment, at).unwrap_or(0);
        }
        modules
    }

    /// Whether a descriptor can be there: types that were made at run time are elsewhere.
    pub fn has_type(&self, at: u64) -> bool {
        at & 7 == 0 && self.types.iter().any(|range| range.contains(&at))
    }
}

/// All types that were looked at.
pub struct Types<'a, 'm> {
    pub(super) moment: &'a Moment<'m>,
    /// Where they are.
    pub modules: Modules,
    descriptors: RefCell<QuickMap<u64, Option<Descriptor>>>,
    pub(super) masks: RefCell<QuickMap<u64, Option<Rc<Mask>>>>,
    pub(super) flats: RefCell<QuickMap<u64, Rc<Flat>>>,
    itabs: RefCell<QuickMap<u64, Option<u64>>>,
}

impl<'a, 'm> Types<'a, 'm> {
    /// Of a moment.
    pub fn new(moment: &'a Moment<'m>, modules: Modules) -> Self {
        let (descriptors, masks, flats, itabs) = Default::default();
        Self { moment, modules, descriptors, masks, flats, itabs }
    }

    /// The type whose descriptor is there, if that can be one.
    pub fn get(&self, at: u64) -> Option<Descriptor> {
        if let Some(known) = self.descriptors.borrow().get(&at) {
            return *known;
        }
        let read = self.read(at);
        let mut all = self.descriptors.borrow_mut();
        if all.len() < KEPT {
            all.insert(at, read);
        }
        read
    }

    fn read(&self, at: u64) -> Option<Descriptor> {
        if at & 7 != 0 || at == 0 {
            return None;
        }
        let word = |offset: u64| self.moment.word(at.checked_add(offset)?);
        let [flags, align, field_align, kind] = bytes(word(16)?, 4);
        let names = word(40)?;
        let name = i32::from_le_bytes(bytes(names, 0));
        let descriptor = Descriptor {
            at,
            size: word(0)?,
            pointer_bytes: word(8)?,
            kind: Kind::of(kind & 31)?,
            is_direct: kind & DIRECT != 0 || flags & DIRECT != 0,
            mask: word(32)?,
            is_on_demand: flags & ON_DEMAND != 0,
            is_program: kind & PROGRAM != 0,
            has_extra_star: flags & EXTRA_STAR != 0,
            name,
        };
        let is_align = |align: u8| align.is_power_of_two() && align <= 64;
        let is_size = descriptor.size < LARGEST && descriptor.pointer_bytes <= descriptor.size;
        (is_size && is_align(align) && is_align(field_align)).then_some(descriptor)
    }

    /// The word of a descriptor behind its head.
    pub fn word(&self, of: u64, offset: u64) -> Option<u64> {
        self.moment.word(of.checked_add(offset)?)
    }

    /// What an interface holds whose first word is this: a type itself, or the table that an interface with
    /// methods has for it.
    pub fn of_interface(&self, word: u64) -> Option<Descriptor> {
        if word & 7 != 0 || !(LEAST..ADDRESSES).contains(&word) {
            return None;
        }
        if self.modules.has_type(word)
            && let Some(descriptor) = self.get(word)
        {
            return Some(descriptor);
        }
        if let Some(known) = self.itabs.borrow().get(&word) {
            return known.and_then(|at| self.get(at));
        }
        let found = self.itab(word);
        let mut all = self.itabs.borrow_mut();
        if all.len() < KEPT {
            all.insert(word, found.map(|descriptor| descriptor.at));
        }
        found
    }

    /// Whether an interface whose first word is this holds a type: its second word then is one, as it is the first of
    /// other interfaces, and tells nothing of what comes behind it.
    pub fn holds_type(&self, word: u64) -> bool {
        let of = self.of_interface(word).filter(|of| of.kind == Kind::Pointer);
        of.is_some_and(|of| self.name(&of).as_deref() == Some("*reflect.rtype"))
    }

    fn itab(&self, at: u64) -> Option<Descriptor> {
        let (interface, own) = (self.moment.word(at)?, self.moment.word(at.checked_add(8)?)?);
        if !self.modules.has_type(interface) || self.get(interface)?.kind != Kind::Interface {
            return None;
        }
        // Both have the same hash of the type.
        let hash = |word: u64| word & 0xffff_ffff;
        let told = hash(self.moment.word(at.checked_add(16)?)?);
        let descriptor = self.modules.has_type(own).then(|| self.get(own))??;
        (hash(self.word(own, 16)?) == told).then_some(descriptor)
    }

    /// What a pointer, a slice, an array or a channel is of.
    pub fn element(&self, of: &Descriptor) -> Option<Descriptor> {
        match of.kind {
            Kind::Pointer | Kind::Slice | Kind::Array | Kind::Chan => {
                self.get(self.word(of.at, 48)?)
            }
            _ => None,
        }
    }

    /// What a map keeps its keys and values in: a bucket, or a group since go1.24.
    pub fn group(&self, of: &Descriptor) -> Option<Descriptor> {
        match of.kind {
            Kind::Map => self.get(self.word(of.at, 64)?),
            _ => None,
        }
    }

    /// Its name, as a program writes it: `main.rec`, `[]*main.leaf`.
    pub fn name(&self, of: &Descriptor) -> Option<String> {
        let module = self.modules.types.iter().find(|range| range.contains(&of.at))?;
        let at = module.start.checked_add_signed(i64::from(of.name))?;
        let name = self.name_at(at)?;
        match name.strip_prefix('*').filter(|_| of.has_extra_star) {
            Some(rest) => Some(rest.to_owned()),
            None => Some(name),
        }
    }

    /// A name of a type or a field: a byte of flags, its length, its bytes.
    pub fn name_at(&self, at: u64) -> Option<String> {
        let mut head = [0; 4];
        let read = self.moment.read(at, &mut head);
        let (mut length, mut used) = (0_usize, 1);
        for byte in head.get(1..read)? {
            length |= usize::from(byte & 127) << ((used - 1) * 7);
            used += 1;
            if byte & 128 == 0 {
                break;
            }
        }
        let place = at.checked_add(used as u64)?;
        let bytes = self.moment.bytes(place, length.min(LONGEST_NAME))?;
        let name = String::from_utf8(bytes).ok()?;
        let is_name = !name.is_empty() && !name.chars().any(char::is_control);
        is_name.then_some(name)
    }
}

/// So many bytes of a word, from this one on.
fn bytes<const N: usize>(word: u64, from: usize) -> [u8; N] {
    let bytes = word.to_le_bytes();
    std::array::from_fn(|index| bytes.get(from + index).copied().unwrap_or(0))
}
