//! The sections of a module's file, which are never mapped. The file is the target's, and may say
//! anything: what is read of it is checked against its length before room is made for it.

use std::{fs::File, ops::Range, os::unix::fs::FileExt};

use goblin::elf::{
    compression_header::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD},
    section_header::{SHF_COMPRESSED, SHT_NOBITS, SHT_PROGBITS},
};
use object::read::{CompressedData, CompressionFormat};

use crate::little_endian::{u32_at, u64_at};

/// Bytes of the file's header, of a section's, and of what stands before a compressed section.
const HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
const COMPRESSION_HEADER: usize = 24;
/// Sections of that size are worth to be passed over.
const LARGE: u64 = 64 << 10;
/// No honest module has longer names of sections, all together.
const NAMES: u64 = 1 << 20;

/// A file, and where its sections are.
#[derive(Debug)]
pub struct Sections<'a> {
    file: Bounded<'a>,
    all: Vec<Section>,
    names: Vec<u8>,
}

/// One section.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    name: usize,
    /// `SHT_`.
    pub kind: u32,
    is_compressed: bool,
    /// Where the loader puts it, as the file states it; 0 if nowhere.
    pub at: u64,
    offset: u64,
    /// Its bytes in the file.
    pub size: u64,
    /// The section that belongs to it: of symbols, their names.
    pub link: usize,
}

impl<'a> Sections<'a> {
    /// Reads where they are; `None` if the file is no ELF file or has none.
    pub fn read(file: &'a File) -> Option<Self> {
        let file = Bounded { file, length: file.metadata().ok()?.len() };
        let header = file.read(0, HEADER as u64)?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let [size, count, names] = [58, 60, 62].map(half).map(usize::from);
        if size != SECTION_HEADER {
            return None;
        }
        let table = file.read(u64_at(&header, 40)?, (count * SECTION_HEADER) as u64)?;
        let all: Vec<Section> =
            table.chunks_exact(SECTION_HEADER).filter_map(Section::read).collect();
        let names = all.get(names).filter(|names| names.size <= NAMES)?;
        let names = file.read(names.offset, names.size)?;
        Some(Self { file, all, names })
    }

    /// The section of this name, if the file holds its bytes.
    pub fn named(&self, name: &[u8]) -> Option<Section> {
        let is_it = |section: &&Section| {
            let rest = self.names.get(section.name..).and_then(|rest| rest.strip_prefix(name));
            rest.is_some_and(|rest| rest.first() == Some(&0)) && section.kind != SHT_NOBITS
        };
        self.all.iter().find(is_it).copied()
    }

    /// The first section of this kind.
    pub fn of_kind(&self, kind: u32) -> Option<Section> {
        self.all.iter().find(|section| section.kind == kind).copied()
    }

    /// Where large sections are that no loader needs, debug information above all; in the order of the
    /// file.
    pub fn idle(&self) -> Vec<Range<u64>> {
        let is_idle = |section: &&Section| {
            section.kind == SHT_PROGBITS && section.at == 0 && section.size >= LARGE
        };
        let range = |section: &Section| section.offset..section.offset.saturating_add(section.size);
        let mut all: Vec<_> = self.all.iter().filter(is_idle).map(range).collect();
        all.sort_unstable_by_key(|range| range.start);
        all
    }

    /// The section of this number.
    pub fn number(&self, number: usize) -> Option<Section> {
        self.all.get(number).copied()
    }

    /// The bytes of a section, uncompressed. `spend` is asked for leave before room is made.
    pub fn bytes(
        &self,
        section: Section,
        mut spend: impl FnMut(u64) -> Option<()>,
    ) -> Option<Vec<u8>> {
        spend(section.size)?;
        let bytes = self.file.read(section.offset, section.size)?;
        if section.is_compressed { uncompressed(&bytes, spend) } else { Some(bytes) }
    }
}

fn uncompressed(bytes: &[u8], mut spend: impl FnMut(u64) -> Option<()>) -> Option<Vec<u8>> {
    let (header, data) = bytes.split_at_checked(COMPRESSION_HEADER)?;
    let format = match u32_at(header, 0)? {
        ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    let uncompressed_size = u64_at(header, 8)?;
    spend(uncompressed_size)?;
    // It makes room for so many bytes, and no more.
    let data = CompressedData { format, data, uncompressed_size };
    data.decompress().ok().map(Into::into)
}

/// A file, and what it can have.
#[derive(Debug)]
struct Bounded<'a> {
    file: &'a File,
    length: u64,
}

impl Bounded<'_> {
    fn read(&self, at: u64, length: u64) -> Option<Vec<u8>> {
        at.checked_add(length).filter(|&end| end <= self.length)?;
        let mut bytes = Vec::new();
        let length = usize::try_from(length).ok()?;
        bytes.try_reserve_exact(length).ok()?;
        bytes.resize(length, 0);
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

impl Section {
    fn read(header: &[u8]) -> Option<Self> {
        Some(Self {
            name: usize::try_from(u32_at(header, 0)?).ok()?,
            kind: u32_at(header, 4)?,
            is_compressed: u64_at(header, 8)? & u64::from(SHF_COMPRESSED) != 0,
            at: u64_at(header, 16)?,
            offset: u64_at(header, 24)?,
            size: u64_at(header, 32)?,
            link: usize::try_from(u32_at(header, 40)?).ok()?,
        })
    }
}
