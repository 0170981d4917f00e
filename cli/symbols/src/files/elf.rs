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
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
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

/// Contents of sections that may be in memory, of all modules together, unpacked or not: as much as
/// the largest file there may be.
const MEMORY_LIMIT: u64 = FILE_LIMIT;
/// No more of the memory that is left, either: one part in so many.
const SHARE: u64 = 4;

/// Contents that are only unpacked to get at what is behind them, or that are in memory for a short time
/// only: seconds of work.
const WORK_LIMIT: u64 = 4 << 30;

/// How many bytes of section contents all modules together may still take.
#[derive(Clone, Debug)]
pub struct Allowance {
    left: Arc<Left>,
    /// What was taken by this one and its clones.
    taken: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Left {
    memory: AtomicU64,
    work: AtomicU64,
    has_refused: AtomicBool,
}

impl Default for Allowance {
    fn default() -> Self {
        let left = memory_left().map_or(MEMORY_LIMIT, |left| left / SHARE);
        Self::of(left.min(MEMORY_LIMIT))
    }
}

/// What this machine has left.
fn memory_left() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

impl Allowance {
    /// So many bytes.
    pub fn of(bytes: u64) -> Self {
        let (memory, work, has_refused) = (bytes.into(), WORK_LIMIT.into(), false.into());
        let left = Arc::new(Left { memory, work, has_refused });
        Self { left, taken: Arc::default() }
    }

    /// `bytes` less of it, if there is so much.
    pub fn take(&self, bytes: u64) -> Option<()> {
        self.noted(take(&self.left.memory, bytes))?;
        self.taken.fetch_add(bytes, Relaxed);
        Some(())
    }

    /// The same, counting from now on by itself what it takes.
    #[must_use]
    pub fn metered(&self) -> Self {
        Self { left: Arc::clone(&self.left), taken: Arc::default() }
    }

    /// What was taken of it since.
    pub fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    /// All that was taken by this one is free again.
    pub fn give_back(&self) {
        self.left.memory.fetch_add(self.taken.swap(0, Relaxed), Relaxed);
    }

    /// The same, with so much less work than there may be.
    #[cfg(test)]
    pub fn with_work(self, bytes: u64) -> Self {
        self.left.work.store(bytes, Relaxed);
        self
    }

    /// `bytes` less of what does not stay in memory, if there is so much.
    pub fn pass(&self, bytes: u64) -> Option<()> {
        self.noted(take(&self.left.work, bytes))
    }

    /// Whether something was not read for want of it: another session may be told more.
    pub fn has_refused(&self) -> bool {
        self.left.has_refused.load(Relaxed)
    }

    fn noted(&self, taken: Option<()>) -> Option<()> {
        if taken.is_none() {
            self.left.has_refused.store(true, Relaxed);
        }
        taken
    }
}

fn take(left: &AtomicU64, bytes: u64) -> Option<()> {
    left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).ok().map(drop)
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

const PAGE: u64 = 4096;

/// The address that the file states for the page of it at `file_offset`, with which a mapping of code begins. The segment
/// before may end in that page, since some linkers leave no room between them.
pub fn address_of_page(segments: &[Segment], file_offset: u64) -> Option<u64> {
    // Those of code come first.
    segments.iter().find_map(|segment| {
        let end = segment.file_offset.checked_add(segment.size)?;
        let is_in = segment.file_offset < file_offset.saturating_add(PAGE) && end > file_offset;
        is_in.then(|| segment.address.wrapping_sub(segment.file_offset).wrapping_add(file_offset))
    })
}

/// An open file that may be ELF.
#[derive(Debug)]
pub struct Source {
    file: Arc<File>,
    cache: ReadCache<File>,
}

impl Source {
    /// Takes the file, if it is small enough.
    pub fn new(file: File) -> Option<Self> {
        let metadata = file.metadata().ok()?;
        let fits = metadata.is_file() && metadata.len() <= FILE_LIMIT;
        let cache = ReadCache::new(file.try_clone().ok()?);
        fits.then_some(Self { file: Arc::new(file), cache })
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

    /// The string that begins so far in the section with this number, without its end; cut after `most`
    /// bytes, and where the section ends.
    pub fn string(
        &self,
        elf: &Elf<'_>,
        index: SectionIndex,
        at: usize,
        most: usize,
    ) -> Option<Vec<u8>> {
        // Most are shorter.
        const PIECE: usize = 256;
        let (start, size) = elf.section_by_index(index).ok()?.file_range()?;
        let end = start.checked_add(size)?;
        let mut at = start.checked_add(at as u64).filter(|&at| at < end)?;
        let mut string = Vec::new();
        while at < end && string.len() < most {
            let mut piece = [0; PIECE];
            let piece = piece.get_mut(..usize::try_from(end - at).unwrap_or(PIECE).min(PIECE))?;
            self.file.read_exact_at(piece, at).ok()?;
            at += piece.len() as u64;
            if let Some(length) = piece.iter().position(|&byte| byte == 0) {
                string.extend_from_slice(piece.get(..length)?);
                break;
            }
            string.extend_from_slice(piece);
        }
        string.truncate(most);
        Some(string)
    }

    /// The file, to make another of these later.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// The same file once more: for as long as it is there it takes another two descriptors.
    pub fn again(file: &File) -> Option<Self> {
        Self::new(file.try_clone().ok()?)
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
            // What is packed is in memory at the same time, and stays there.
            allowance.take(range.compressed_size)?;
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
            Packing::Zlib(unpacked) => {
                self.allowance.pass(size)?;
                let skipped = io::copy(&mut unpacked.take(size), &mut io::sink()).ok()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modules_together_take_no_more_memory_than_one_file_may_have() {
        assert!(Allowance::default().take(MEMORY_LIMIT + 1).is_none());
        let (one, same) = (Allowance::of(100), Allowance::of(100).clone());
        assert!(one.take(60).is_some() && one.clone().take(60).is_none());
        assert!(same.pass(WORK_LIMIT).is_some() && same.pass(1).is_none());
        assert!(same.take(100).is_some(), "what does not stay takes no memory");
        let metered = one.metered();
        assert!(metered.take(41).is_none() && metered.clone().take(30).is_some());
        assert_eq!((metered.taken(), one.taken()), (30, 60));
        metered.give_back();
        assert!(metered.taken() == 0 && one.take(41).is_none() && one.take(40).is_some());
    }

    #[test]
    fn the_page_with_which_code_begins_is_its_own_though_another_segment_ends_in_it() {
        // As lld lays them out.
        let segment = |executable, file_offset, size, address| Segment {
            file_offset,
            size,
            address,
            executable,
        };
        let all = [
            segment(true, 0x134e0, 0x3e600, 0x144e0),
            segment(false, 0, 0x134dc, 0),
            segment(false, 0x51ae0, 0x28a0, 0x53ae0),
        ];
        let found = [0x13000, 0, 0x51000, 0x90000].map(|at| address_of_page(&all, at));
        assert_eq!(found, [Some(0x14000), Some(0), Some(0x52000), None]);
    }
}
