//! The debug data of a program: entries, types, and references between them.

use gimli::{
    Attribute, AttributeValue, DebuggingInformationEntry, Unit, UnitOffset, constants as dw,
};

use super::sections::{Bytes, Sections};

/// Types refer to one another so often at most.
const DEEPEST: u32 = 24;

/// An entry.
pub type Entry<'s> = DebuggingInformationEntry<Bytes<'s>>;

/// The debug data of a file.
pub struct Debug<'s> {
    /// Its sections.
    pub dwarf: gimli::Dwarf<Bytes<'s>>,
    /// Ascending, as they lie in the file.
    pub units: Vec<Unit<Bytes<'s>>>,
}

/// Where a type is described.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The number of the unit.
    pub unit: usize,
    /// Its entry there.
    pub entry: UnitOffset,
}

impl<'s> Debug<'s> {
    /// Reads its units.
    pub fn read(sections: &'s Sections) -> Option<Self> {
        let dwarf = sections.dwarf();
        let mut units = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            units.push(dwarf.unit(header).ok()?);
        }
        (!units.is_empty()).then_some(Self { dwarf, units })
    }

    /// What it is called.
    pub fn name(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<String> {
        let value = entry.attr_value(dw::DW_AT_name)?;
        let name = self.dwarf.attr_string(unit, value).ok()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// The type that an entry is of.
    pub fn type_of(&self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<Place> {
        self.place(unit, entry.attr_value(dw::DW_AT_type)?)
    }

    /// Where a reference leads.
    pub fn place(&self, unit: &Unit<Bytes<'s>>, value: AttributeValue<Bytes<'s>>) -> Option<Place> {
        let at = match value {
            AttributeValue::DebugInfoRef(at) => at,
            AttributeValue::UnitRef(entry) => entry.to_debug_info_offset(&unit.header)?,
            _ => return None,
        };
        let start = |unit: &Unit<Bytes<'s>>| unit.header.offset().0;
        let behind = self.units.partition_point(|unit| start(unit) <= at.0);
        let unit = behind.checked_sub(1)?;
        Some(Place { unit, entry: at.to_unit_offset(&self.units[unit].header)? })
    }

    /// An entry.
    pub fn entry(&self, place: Place) -> Option<(&Unit<Bytes<'s>>, Entry<'s>)> {
        let unit = self.units.get(place.unit)?;
        Some((unit, unit.entry(place.entry).ok()?))
    }

    /// Bytes of a value.
    pub fn size(&self, place: Place, depth: u32) -> u64 {
        let Some((unit, entry)) = self.entry(place).filter(|_| depth < DEEPEST) else { return 0 };
        match number(entry.attr(dw::DW_AT_byte_size)) {
            Some(size) => size,
            None if entry.tag() == dw::DW_TAG_typedef => {
                self.type_of(unit, &entry).map_or(0, |inner| self.size(inner, depth + 1))
            }
            None => 8,
        }
    }
}

/// A number, in whichever form; an address counts as one.
pub fn number(attribute: Option<&Attribute<Bytes<'_>>>) -> Option<u64> {
    let attribute = attribute?;
    match attribute.value() {
        AttributeValue::Addr(address) => Some(address),
        _ => attribute.udata_value(),
    }
}
