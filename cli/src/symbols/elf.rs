//! An ELF file, opened and of bounded size, and the parts of it we want.
//!
//! Only the headers and the sections asked for are read: most modules have no debug information,
//! and their code is of no interest here.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use flate2::read::ZlibDecoder;
use object::{
    Endianness, Object, ObjectSection, SectionIndex,
    elf::PT_LOAD,
    read::{
        CompressedFileRange, CompressionFormat, ReadCache,
        elf::{ElfFile64, ProgramHeader},
    },
};

/// Larger files (debug builds of browsers) give no names yet.
pub const FILE_LIMIT: u64 = 1 << 30;
/// More are found in object files only.
const SECTIONS_LIMIT: usize = 1 << 16;
/// No linker writes more.
const SEGMENTS_LIMIT: usize = 1 << 10;

/// The headers of a file whose bytes are in a [`Source`].
pub type Elf<'a> = ElfFile64<'a, Endianness, &'a ReadCache<File>>;

/// How many bytes of section contents all modules together may still take.
#[derive(Clone, Debug)]
pub struct Allowance(Arc<AtomicU64>);

impl Default for Allowance {
    fn default() -> Self {
        Self(Arc::new((4 << 30).into()))
    }
}

impl Allowance {
    /// So many bytes.
    #[cfg(test)]
    pub fn of(bytes: u64) -> Self {
        Self(Arc::new(bytes.into()))
    }

    /// `bytes` less of it, if there is so much.
    pub fn take(&self, bytes: u64) -> Option<()> {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).ok().map(drop)
    }
}

/// A part of the file that is mapped as it is.
#[derive(Debug)]
pub struct Segment {
    file_offset: u64,
    size: u64,
    address: u64,
    executable: bool,
}

impl Segment {
    /// The address the file states for what lies at `file_offset`.
    pub fn address_of(&self, file_offset: u64) -> Option<u64> {
        let within = file_offset.checked_sub(self.file_offset).filter(|w| *w < self.size)?;
        self.address.checked_add(within)
    }
}

/// An open file that may be ELF.
#[derive(Debug)]
pub struct Source {
    file: File,
    cache: ReadCache<File>,
}

impl Source {
    /// Takes the file, if it is small enough.
    pub fn new(file: File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let fits = metadata.is_file() && metadata.len() <= FILE_LIMIT;
        let cache = ReadCache::new(file.try_clone().ok()?);
        fits.then_some(Self { file, cache })
    }

    /// Reads the headers.
    pub fn elf(&self) -> Option<Elf<'_>> {
        let elf = Elf::parse(&self.cache).ok()?;
        (elf.elf_section_table().len() <= SECTIONS_LIMIT).then_some(elf)
    }

    /// The contents of the section with this name, uncompressed.
    pub fn named(&self, elf: &Elf<'_>, name: &str, allowance: &Allowance) -> Option<Vec<u8>> {
        self.read(elf.section_by_name(name)?.compressed_file_range().ok()?, allowance)
    }

    /// The contents of the section with this number.
    pub fn numbered(
        &self,
        elf: &Elf<'_>,
        index: SectionIndex,
        allowance: &Allowance,
    ) -> Option<Vec<u8>> {
        let section = elf.section_by_index(index).ok()?;
        self.read(CompressedFileRange::none(section.file_range()), allowance)
    }

    /// The file, to make another of these later: each takes two descriptors.
    pub fn file(&self) -> Option<File> {
        self.file.try_clone().ok()
    }

    /// The contents of the section with this name, uncompressed, one after the other; `None` if they
    /// are packed in a way that has to be unpacked whole.
    pub fn stream(&self, elf: &Elf<'_>, name: &str, allowance: &Allowance) -> Option<Stream<'_>> {
        let range = elf.section_by_name(name)?.compressed_file_range().ok()?;
        let end = range.offset.checked_add(range.compressed_size)?;
        let piece = Piece { file: &self.file, at: range.offset, end };
        let packing = match range.format {
            CompressionFormat::None => Packing::Plain(piece),
            CompressionFormat::Zlib => Packing::Zlib(ZlibDecoder::new(piece)),
            _ => return None,
        };
        Some(Stream { packing, allowance: allowance.clone() })
    }

    fn read(&self, range: CompressedFileRange, allowance: &Allowance) -> Option<Vec<u8>> {
        // Checked before anything is set aside: the sizes are only what the file says.
        let file_size = self.file.metadata().ok()?.len();
        let end = range.offset.checked_add(range.compressed_size)?;
        if end > file_size {
            return None;
        }
        allowance.take(range.uncompressed_size)?;
        if range.format != CompressionFormat::None {
            return range.data(&self.cache).ok()?.decompress().ok().map(Into::into);
        }
        let size = usize::try_from(range.compressed_size).ok()?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok()?;
        bytes.resize(size, 0);
        self.file.read_exact_at(&mut bytes, range.offset).ok()?;
        Some(bytes)
    }
}

/// The bytes of a section.
#[derive(Debug)]
pub struct Stream<'s> {
    packing: Packing<'s>,
    allowance: Allowance,
}

#[derive(Debug)]
enum Packing<'s> {
    Plain(Piece<'s>),
    Zlib(ZlibDecoder<Piece<'s>>),
}

impl Stream<'_> {
    /// Goes on so many bytes later.
    pub fn skip(&mut self, size: u64) -> Option<()> {
        match &mut self.packing {
            Packing::Plain(piece) => piece.at = piece.at.checked_add(size)?,
            Packing::Zlib(_) => {
                let skipped = io::copy(&mut self.by_ref().take(size), &mut io::sink()).ok()?;
                return (skipped == size).then_some(());
            }
        }
        Some(())
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let size = match &mut self.packing {
            Packing::Plain(piece) => piece.read(bytes)?,
            Packing::Zlib(unpacked) => unpacked.read(bytes)?,
        };
        // A few bytes can unpack to gigabytes.
        self.allowance.take(size as u64).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(size)
    }
}

/// A part of a file.
#[derive(Debug)]
struct Piece<'s> {
    file: &'s File,
    at: u64,
    end: u64,
}

impl Read for Piece<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let size = bytes.len().min(left);
        let got = self.file.read_at(bytes.get_mut(..size).unwrap_or_default(), self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// What is mapped of the file, code first: pages at a border belong to two segments.
pub fn segments(elf: &Elf<'_>) -> Vec<Segment> {
    let endian = elf.endian();
    let headers = elf.elf_program_headers().iter().take(SEGMENTS_LIMIT);
    let mut segments: Vec<Segment> = headers
        .filter(|header| header.p_type(endian) == PT_LOAD)
        .map(|header| Segment {
            file_offset: header.p_offset(endian),
            size: header.p_filesz(endian),
            address: header.p_vaddr(endian),
            executable: header.p_flags(endian).contains(object::elf::PF_X),
        })
        .collect();
    segments.sort_by_key(|segment| !segment.executable);
    segments
}
