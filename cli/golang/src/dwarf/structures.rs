//! The fields of structures: what tables of a release are made of.

use std::{collections::BTreeMap, fs::File};

use gimli::{Unit, constants as dw};

use heapattach_symbols::entries::{Allowance, Bytes, Debug, Place, Sections, number};

/// Structures within structures.
const DEEPEST: u32 = 4;

/// All fields of these structures, by their whole name: where each lies, and its bytes.
pub fn fields(file: File, structures: &[&str]) -> Option<BTreeMap<String, (u64, u64)>> {
    let sections = Sections::read(file, &Allowance::default())?;
    let debug = Structures(Debug::read(&sections)?);
    let mut all = BTreeMap::new();
    for unit in &debug.0.units {
        let mut entries = unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.depth() != 1 || entry.tag() != dw::DW_TAG_structure_type {
                continue;
            }
            let name = debug.0.name(unit, entry);
            if let Some(name) = name.filter(|name| structures.contains(&name.as_str())) {
                debug.fields_of(unit, entry.offset(), &name, 0, 0, &mut all);
            }
        }
    }
    Some(all)
}

/// The debug data that it is read of.
struct Structures<'s>(Debug<'s>);

impl<'s> Structures<'s> {
    fn fields_of(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: gimli::UnitOffset,
        name: &str,
        base: u64,
        depth: u32,
        all: &mut BTreeMap<String, (u64, u64)>,
    ) {
        let Ok(mut tree) = unit.entries_tree(Some(entry)) else { return };
        let Ok(root) = tree.root() else { return };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let member = child.entry();
            let offset = number(member.attr(dw::DW_AT_data_member_location));
            let (Some(offset), Some(of)) = (offset, self.0.type_of(unit, member)) else { continue };
            let own = self.0.name(unit, member).unwrap_or_default();
            let name = format!("{name}.{own}");
            all.insert(name.clone(), (base + offset, self.0.size(of, 0)));
            let inner = self.untyped(of, 0).filter(|_| depth < DEEPEST);
            if let Some((inner, entry)) = inner.and_then(|of| self.0.entry(of))
                && entry.tag() == dw::DW_TAG_structure_type
            {
                self.fields_of(inner, entry.offset(), &name, base + offset, depth + 1, all);
            }
        }
    }

    /// What a type is another name of.
    fn untyped(&self, place: Place, depth: u32) -> Option<Place> {
        let (unit, entry) = self.0.entry(place)?;
        match entry.tag() {
            dw::DW_TAG_typedef if depth < DEEPEST => {
                self.untyped(self.0.type_of(unit, &entry)?, depth + 1)
            }
            _ => Some(place),
        }
    }
}
