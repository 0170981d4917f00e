//! Sections of debug data, unpacked within the bound of all files together.

use std::{collections::HashMap, fs::File};

use gimli::{EndianSlice, LittleEndian, SectionId};
use object::Object;

use crate::files::elf::{Allowance, Source};

/// Those that tell of variables and their types.
const WANTED: [SectionId; 7] = [
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugLine,
    SectionId::DebugStr,
    SectionId::DebugLineStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugAddr,
];

/// Where a variable lies at which place of the code; larger than the others together.
const PLACES: [SectionId; 4] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
];

/// A part of a section.
pub type Bytes<'s> = EndianSlice<'s, LittleEndian>;

/// The sections of a file.
#[derive(Debug)]
pub struct Sections {
    all: HashMap<&'static str, Vec<u8>>,
    /// What they take.
    allowance: Allowance,
}

impl Sections {
    /// Reads them, all that are there or nothing: the target says how large they are.
    pub fn read(file: File, allowance: &Allowance) -> Option<Self> {
        Self::read_these(file, allowance, &WANTED)
    }

    /// The same, with those that tell where the variables of functions lie.
    pub fn read_with_places(file: File, allowance: &Allowance) -> Option<Self> {
        Self::read_these(file, allowance, &[&WANTED[..], &PLACES].concat())
    }

    fn read_these(file: File, allowance: &Allowance, wanted: &[SectionId]) -> Option<Self> {
        let source = Source::new(file)?;
        let elf = source.elf()?;
        let mut sections = Self { all: HashMap::new(), allowance: allowance.metered() };
        for name in wanted.iter().map(|id| id.name()) {
            if elf.section_by_name(name).is_none() {
                continue;
            }
            let bytes = source.named(&elf, name, &sections.allowance)?;
            // Its memory is free again before the next file is read; the time it took is not.
            sections.allowance.pass(bytes.len() as u64)?;
            sections.all.insert(name, bytes);
        }
        Some(sections)
    }

    /// As debug data.
    pub fn dwarf(&self) -> gimli::Dwarf<Bytes<'_>> {
        let section = |id: SectionId| -> Result<Bytes<'_>, gimli::Error> {
            let bytes = self.all.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        gimli::Dwarf::load(section).unwrap_or_default()
    }
}

impl Drop for Sections {
    fn drop(&mut self) {
        self.allowance.give_back();
    }
}
