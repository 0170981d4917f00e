//! The names of structures and the variables of a file, found in one pass over its entries.

use std::{collections::HashMap, time::Instant};

use gimli::{AttributeValue, Unit, constants as dw};

use crate::entries::{Bytes, Debug, Entry, Place, number};

use super::read::Limits;

/// How often the clock is looked at.
const ENTRIES: u64 = 4096;
/// Scopes in scopes.
const DEEPEST: usize = 64;

/// A structure of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub place: Place,
    pub size: u64,
    /// Whether others of this name have another size.
    pub is_several: bool,
}

/// What was found.
#[derive(Default)]
pub(super) struct Index {
    /// Structures that are described, by their whole names.
    pub named: HashMap<String, Named>,
    /// The whole names of those within a namespace or another structure.
    pub whole: HashMap<Place, String>,
    /// Name, address, type.
    pub variables: Vec<(String, u64, Place)>,
    pub missing: Option<Missing>,
}

/// Why something may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A part of it is damaged: the others are read.
    Damaged,
    /// It has too many entries.
    Entries,
    /// It has too many types.
    Types,
    /// It takes too long.
    Time,
}

impl Missing {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Damaged => "a part of it is damaged",
            Self::Entries => "it has too many entries",
            Self::Types => "it has too many types",
            Self::Time => "there was no time for all of it",
        }
    }
}

impl Index {
    /// Goes through all entries.
    pub fn of(debug: &Debug<'_>, limits: &Limits) -> Self {
        let (mut index, mut left) = (Self::default(), limits.entries);
        for (number, unit) in debug.units.iter().enumerate() {
            if index.unit(debug, number, unit, limits, &mut left).is_err() {
                index.missing.get_or_insert(Missing::Damaged);
            }
            if index.missing.is_some_and(|why| why != Missing::Damaged) {
                break;
            }
        }
        index
    }

    fn unit<'s>(
        &mut self,
        debug: &Debug<'s>,
        number: usize,
        unit: &Unit<Bytes<'s>>,
        limits: &Limits,
        left: &mut u64,
    ) -> gimli::Result<()> {
        let mut entries = unit.entries();
        // The names of the scopes that an entry is in, with their depth.
        let mut scopes: Vec<(isize, Option<String>)> = Vec::new();
        while let Some(entry) = entries.next_dfs()? {
            *left = left.saturating_sub(1);
            if *left == 0 || self.variables.len() >= limits.types {
                self.missing = Some(Missing::Entries);
                return Ok(());
            }
            if left.is_multiple_of(ENTRIES) && Instant::now() > limits.end {
                self.missing = Some(Missing::Time);
                return Ok(());
            }
            let depth = entry.depth();
            while scopes.last().is_some_and(|(above, _)| *above >= depth) {
                scopes.pop();
            }
            let mut push = |name: Option<String>| {
                if scopes.len() < DEEPEST {
                    scopes.push((depth, name));
                }
            };
            match entry.tag() {
                dw::DW_TAG_namespace => push(debug.name(unit, entry)),
                dw::DW_TAG_subprogram => push(None),
                dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                    let name = debug.name(unit, entry);
                    push(name.clone());
                    if let Some(name) = name {
                        let place = Place { unit: number, entry: entry.offset() };
                        self.structure(place, entry, whole(&scopes, &name), limits);
                    }
                }
                dw::DW_TAG_variable => {
                    if let Some(at) = address(debug, unit, entry)?
                        && let Some((name, of)) = declared(debug, unit, entry)
                    {
                        self.variables.push((name, at, of));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn structure(&mut self, place: Place, entry: &Entry<'_>, name: String, limits: &Limits) {
        if self.named.len() >= limits.types || self.whole.len() >= limits.types {
            self.missing = Some(Missing::Types);
            return;
        }
        if name.contains("::") {
            self.whole.insert(place, name.clone());
        }
        let is_promise = entry.attr(dw::DW_AT_declaration).is_some();
        let size = number(entry.attr(dw::DW_AT_byte_size));
        if let Some(size) = size.filter(|_| !is_promise) {
            let first = Named { place, size, is_several: false };
            let known = self.named.entry(name).or_insert(first);
            known.is_several |= known.size != size;
        }
    }
}

/// The name with those of the scopes; the last of these is its own.
fn whole(scopes: &[(isize, Option<String>)], name: &str) -> String {
    let above = scopes.iter().rev().skip(1);
    // What is local to a function has no name outside of it.
    let mut names: Vec<&str> = above.map_while(|(_, name)| name.as_deref()).collect();
    names.reverse();
    names.push(name);
    names.join("::")
}

/// Where a variable lies, if it has one place for ever.
fn address<'s>(
    debug: &Debug<'s>,
    unit: &Unit<Bytes<'s>>,
    entry: &Entry<'s>,
) -> gimli::Result<Option<u64>> {
    let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(dw::DW_AT_location) else {
        return Ok(None);
    };
    let mut operations = expression.operations(unit.encoding());
    let address = match operations.next()? {
        Some(gimli::Operation::Address { address }) => address,
        Some(gimli::Operation::AddressIndex { index }) => debug.dwarf.address(unit, index)?,
        _ => return Ok(None),
    };
    Ok(operations.next()?.is_none().then_some(address))
}

/// The name and type of a variable; what it completes may have them.
fn declared<'s>(
    debug: &Debug<'s>,
    unit: &Unit<Bytes<'s>>,
    entry: &Entry<'s>,
) -> Option<(String, Place)> {
    if let Some(of) = debug.type_of(unit, entry) {
        let own = debug.name(unit, entry);
        let completed = || {
            let (unit, first) = completed(debug, unit, entry)?;
            debug.name(unit, &first)
        };
        return Some((own.or_else(completed)?, of));
    }
    let (unit, first) = completed(debug, unit, entry)?;
    Some((debug.name(unit, &first)?, debug.type_of(unit, &first)?))
}

fn completed<'d, 's>(
    debug: &'d Debug<'s>,
    unit: &Unit<Bytes<'s>>,
    entry: &Entry<'s>,
) -> Option<(&'d Unit<Bytes<'s>>, Entry<'s>)> {
    let value = entry.attr_value(dw::DW_AT_specification);
    let value = value.or_else(|| entry.attr_value(dw::DW_AT_abstract_origin))?;
    debug.entry(debug.place(unit, value)?)
}
