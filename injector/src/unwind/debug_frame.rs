//! Unwind information that is not mapped: `.debug_frame`, which only the module's file has.
//!
//! The file is the target's, and may say anything: what is read of it is checked against its length
//! and the budget before room is made for it.

use std::{fs::File, os::unix::fs::FileExt, sync::atomic::AtomicU64};

use goblin::elf::{
    compression_header::{ELFCOMPRESS_ZLIB, ELFCOMPRESS_ZSTD},
    section_header::{SHF_COMPRESSED, SHT_NOBITS},
};
use object::read::{CompressedData, CompressionFormat};

use super::{Image, budget::spend};
use crate::{
    linker::{u32_at, u64_at},
    memory::Memory,
    proc::{
        Process,
        build_id::BuildId,
        file::open_build,
        maps::{self, Mapping},
    },
};

const NAME: &[u8] = b".debug_frame";
/// Bytes of the file's header, of a section's, and of what stands before a compressed section.
const HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
const COMPRESSION_HEADER: usize = 24;
/// No honest module has longer names of sections, all together.
const NAMES: u64 = 1 << 20;

/// The section of the file that `image` was mapped from, if that very file can still be had.
pub fn of_image(
    process: &Process,
    memory: &Memory,
    maps: &[Mapping<'_>],
    image: &Image,
    left: &AtomicU64,
) -> Option<Vec<u8>> {
    let mapping = maps::covering(maps, image.start).filter(|mapping| mapping.inode != 0)?;
    let size = mapping.range.end.offset_from(image.start)?;
    let build = BuildId::at(memory.file(), image.start.get(), size);
    section(&open_build(process, mapping, build.as_ref()).ok()?, left)
}

/// The section of a file, uncompressed; `None` if it has none, or more than is `left` for all.
pub fn section(file: &File, left: &AtomicU64) -> Option<Vec<u8>> {
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
    let sections: Vec<Section> =
        table.chunks_exact(SECTION_HEADER).filter_map(Section::read).collect();
    let names = sections.get(names).filter(|names| names.size <= NAMES)?;
    let names = file.read(names.offset, names.size)?;
    let is_it = |section: &&Section| {
        let name = names.get(section.name..).and_then(|name| name.strip_prefix(NAME));
        name.is_some_and(|rest| rest.first() == Some(&0)) && section.kind != SHT_NOBITS
    };
    let section = sections.iter().find(is_it)?;
    spend(left, section.size)?;
    let bytes = file.read(section.offset, section.size)?;
    if section.is_compressed { uncompressed(&bytes, left) } else { Some(bytes) }
}

fn uncompressed(bytes: &[u8], left: &AtomicU64) -> Option<Vec<u8>> {
    let (header, data) = bytes.split_at_checked(COMPRESSION_HEADER)?;
    let format = match u32_at(header, 0)? {
        ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
        ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
        _ => return None,
    };
    let uncompressed_size = u64_at(header, 8)?;
    spend(left, uncompressed_size)?;
    // It makes room for so many bytes, and no more.
    let data = CompressedData { format, data, uncompressed_size };
    data.decompress().ok().map(Into::into)
}

/// A file, and what it can have.
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

/// A section header.
struct Section {
    name: usize,
    kind: u32,
    is_compressed: bool,
    offset: u64,
    size: u64,
}

impl Section {
    fn read(header: &[u8]) -> Option<Self> {
        Some(Self {
            name: usize::try_from(u32_at(header, 0)?).ok()?,
            kind: u32_at(header, 4)?,
            is_compressed: u64_at(header, 8)? & u64::from(SHF_COMPRESSED) != 0,
            offset: u64_at(header, 24)?,
            size: u64_at(header, 32)?,
        })
    }
}
