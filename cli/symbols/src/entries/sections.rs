//! Sections of debug data, unpacked within a bound.

use std::{collections::HashMap, fs::File, io::Read};

use flate2::read::ZlibDecoder;
use gimli::{EndianSlice, LittleEndian, SectionId};
use object::{
    CompressionFormat, Object, ObjectSection,
    read::{ReadCache, elf::ElfFile64},
};

/// All sections of a file together, unpacked.
const MOST_BYTES: u64 = 1 << 30;

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

/// A part of a section.
pub type Bytes<'s> = EndianSlice<'s, LittleEndian>;

/// The sections of a file.
#[derive(Debug, Default)]
pub struct Sections {
    all: HashMap<&'static str, Vec<u8>>,
}

impl Sections {
    /// Reads them.
    pub fn read(file: File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf: ElfFile64<'_, object::Endianness, _> = ElfFile64::parse(&cache).ok()?;
        let mut left = MOST_BYTES;
        let mut sections = Self::default();
        for id in WANTED {
            let section = elf.section_by_name(id.name());
            if let Some(bytes) = section.and_then(|section| unpacked(&section, &mut left)) {
                sections.all.insert(id.name(), bytes);
            }
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

fn unpacked<'f>(section: &impl ObjectSection<'f>, left: &mut u64) -> Option<Vec<u8>> {
    let data = section.compressed_data().ok()?;
    let size = data.uncompressed_size;
    *left = left.checked_sub(size)?;
    match data.format {
        CompressionFormat::None => Some(data.data.to_vec()),
        CompressionFormat::Zlib => {
            let mut bytes = Vec::new();
            ZlibDecoder::new(data.data).take(size).read_to_end(&mut bytes).ok()?;
            Some(bytes)
        }
        _ => None,
    }
}
