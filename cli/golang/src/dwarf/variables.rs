//! The variables of a program: the name of each, and what its pointers lead to.

use std::{collections::HashMap, fs::File, ops::Range};

use gimli::{AttributeValue, DwAt, Unit, constants as dw};

use heapattach_symbols::entries::{Allowance, Bytes, Debug, Entry, Place, Sections, number};

/// What the compiler notes of a type: its kind, what it has as elements, and where the runtime describes it.
const KIND: DwAt = DwAt(0x2900);
const ELEMENT: DwAt = DwAt(0x2902);
const RUNTIME_TYPE: DwAt = DwAt(0x2904);

/// Kinds of types, as the runtime numbers them.
const CHAN: u64 = 18;
const INTERFACE: u64 = 20;
const MAP: u64 = 21;
const SLICE: u64 = 23;
const STRING: u64 = 24;

/// Structures are nested so deep at most; and pointers of one variable.
const DEEPEST: u32 = 24;
const MOST_POINTERS: usize = 1 << 12;
/// Variables of a program.
const MOST_VARIABLES: usize = 1 << 20;
/// Elements of an array that are told.
const MOST_ELEMENTS: u64 = 64;

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// A value.
    One,
    /// The elements of a slice.
    Many,
    /// The bytes of a string.
    Text,
    /// A map.
    Map,
    /// A channel.
    Chan,
    /// What an interface holds.
    Held,
}

/// A pointer in a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    /// Where it lies, as the file states it.
    pub at: u64,
    /// What it leads to.
    pub what: Pointer,
    /// Where the runtime describes the type of that, behind the first of its types; none if it does not.
    pub of: Option<u64>,
    /// The fields that it is in: `users. ([]*main.user)`.
    pub fields: Vec<String>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name: `main.cache`.
    pub name: String,
    /// Where it lies, as the file states it.
    pub range: Range<u64>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    /// Ascending.
    all: Vec<Variable>,
    /// Ascending.
    pointers: Vec<Typed>,
}

impl Variables {
    /// Reads them; none where there is no debug data.
    pub fn read(file: File) -> Option<Self> {
        let sections = Sections::read(file, &Allowance::default())?;
        let file = Reading(Debug::read(&sections)?);
        let mut variables = Self::default();
        for unit in &file.0.units {
            let _ = file.variables_of(unit, &mut variables);
        }
        variables.all.sort_by_key(|variable| variable.range.start);
        variables.pointers.sort_by_key(|pointer| pointer.at);
        Some(variables)
    }

    /// The variable that has an address of the file.
    pub fn at(&self, address: u64) -> Option<&Variable> {
        let behind = self.all.partition_point(|variable| variable.range.start <= address);
        let variable = self.all.get(behind.checked_sub(1)?)?;
        variable.range.contains(&address).then_some(variable)
    }

    /// Where the variable with a name lies.
    pub fn named(&self, name: &str) -> Option<u64> {
        let variable = self.all.iter().find(|variable| variable.name == name)?;
        Some(variable.range.start)
    }

    /// The pointer that lies there.
    pub fn pointer_at(&self, address: u64) -> Option<&Typed> {
        let found = self.pointers.binary_search_by_key(&address, |pointer| pointer.at).ok()?;
        self.pointers.get(found)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// The debug data that it is read of.
pub(super) struct Reading<'s>(pub(super) Debug<'s>);

impl<'s> Reading<'s> {
    fn variables_of(&self, unit: &Unit<Bytes<'s>>, all: &mut Variables) -> gimli::Result<()> {
        let mut entries = unit.entries();
        let mut sizes = HashMap::new();
        while let Some(entry) = entries.next_dfs()? {
            if entry.depth() != 1 || entry.tag() != dw::DW_TAG_variable {
                continue;
            }
            let Some(at) = self.address(unit, entry)? else { continue };
            let name = self.0.name(unit, entry);
            let (Some(name), Some(place)) = (name, self.0.type_of(unit, entry)) else { continue };
            let size =
                *sizes.entry((place.unit, place.entry.0)).or_insert_with(|| self.0.size(place, 0));
            if all.all.len() >= MOST_VARIABLES {
                break;
            }
            all.all.push(Variable { name, range: at..at.saturating_add(size.max(1)) });
            let mut pointers = Vec::new();
            self.flatten(place, at, 0, &mut Vec::new(), &mut pointers);
            all.pointers.append(&mut pointers);
        }
        Ok(())
    }

    /// Where a variable lies, if it has one place for ever.
    fn address(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> gimli::Result<Option<u64>> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(dw::DW_AT_location) else {
            return Ok(None);
        };
        let mut operations = expression.operations(unit.encoding());
        let address = match operations.next()? {
            Some(gimli::Operation::Address { address }) => address,
            Some(gimli::Operation::AddressIndex { index }) => self.0.dwarf.address(unit, index)?,
            _ => return Ok(None),
        };
        Ok(operations.next()?.is_none().then_some(address))
    }

    /// Where the runtime describes a type.
    fn runtime_type(&self, place: Option<Place>) -> Option<u64> {
        let mut place = place?;
        for _ in 0..DEEPEST {
            let (unit, entry) = self.0.entry(place)?;
            match number(entry.attr(RUNTIME_TYPE)).filter(|of| *of != 0) {
                None if entry.tag() == dw::DW_TAG_typedef => {
                    place = self.0.type_of(unit, &entry)?
                }
                told => return told,
            }
        }
        None
    }

    /// The pointers of a value that lies there.
    pub(super) fn flatten(
        &self,
        place: Place,
        at: u64,
        depth: u32,
        fields: &mut Vec<String>,
        out: &mut Vec<Typed>,
    ) {
        let Some((unit, entry)) = self.0.entry(place) else { return };
        if depth > DEEPEST || out.len() >= MOST_POINTERS {
            return;
        }
        let inner = self.0.type_of(unit, &entry);
        let element = || entry.attr_value(ELEMENT).and_then(|value| self.0.place(unit, value));
        let mut push = |at, what, of| out.push(Typed { at, what, of, fields: fields.clone() });
        match (number(entry.attr(KIND)), entry.tag()) {
            (Some(SLICE), _) => push(at, Pointer::Many, self.runtime_type(element())),
            (Some(STRING), _) => push(at, Pointer::Text, None),
            (Some(MAP), _) => push(at, Pointer::Map, self.runtime_type(Some(place))),
            (Some(CHAN), _) => push(at, Pointer::Chan, self.runtime_type(Some(place))),
            (Some(INTERFACE), _) => push(at.saturating_add(8), Pointer::Held, None),
            (_, dw::DW_TAG_pointer_type) => push(at, Pointer::One, self.runtime_type(inner)),
            (_, dw::DW_TAG_typedef) => {
                if let Some(inner) = inner {
                    self.flatten(inner, at, depth + 1, fields, out);
                }
            }
            (_, dw::DW_TAG_structure_type) => self.members(unit, place, at, depth, fields, out),
            (_, dw::DW_TAG_array_type) => {
                let Some(inner) = inner else { return };
                let (size, whole) = (self.0.size(inner, 0), self.0.size(place, 0));
                for index in 0..whole.checked_div(size).unwrap_or(0).min(MOST_ELEMENTS) {
                    let at = at.saturating_add(index * size);
                    self.flatten(inner, at, depth + 1, fields, out);
                }
            }
            _ => {}
        }
    }

    fn members(
        &self,
        unit: &Unit<Bytes<'s>>,
        place: Place,
        at: u64,
        depth: u32,
        fields: &mut Vec<String>,
        out: &mut Vec<Typed>,
    ) {
        let Ok(mut tree) = unit.entries_tree(Some(place.entry)) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let member = child.entry();
            let offset = number(member.attr(dw::DW_AT_data_member_location));
            let (Some(offset), Some(inner)) = (offset, self.0.type_of(unit, member)) else {
                continue;
            };
            let type_name = self.0.entry(inner).and_then(|(unit, entry)| self.0.name(unit, &entry));
            let name = self.0.name(unit, member).unwrap_or_default();
            fields.push(format!("{name}. ({})", type_name.unwrap_or_default()));
            self.flatten(inner, at.saturating_add(offset), depth + 1, fields, out);
            fields.pop();
        }
    }
}
