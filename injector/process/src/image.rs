//! The ELF images in the target's memory, as far as unwinding is concerned: where code lies, and the
//! unwind information that is mapped with it.
//!
//! All of it is read from memory: the file may be gone, or another by now, and the vDSO has none. Only
//! what is never mapped is read from the file, by the caller that needs it.

use std::{fs::File, ops::Range, os::unix::fs::FileExt};

use goblin::elf::program_header::{PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use heapattach_abi::late::{IDENTITY_START, NAME_BYTES, identify};

use crate::{
    addr::{Bias, ImageAddr, RemoteAddr},
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::{build_id::BuildId, maps::Mapping},
};

/// Bytes of a header, and of one program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// No honest image has more.
const PROGRAM_HEADERS: usize = 64;
/// Nor has a process more code.
const CODE: u64 = 1 << 32;

/// A loaded image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Where its first bytes are mapped.
    pub start: RemoteAddr,
    /// From the addresses that its file states to those of its memory.
    pub bias: Bias,
    /// Its code.
    pub code: Range<RemoteAddr>,
    /// Its unwind information, if that is mapped too.
    pub mapped: Option<Mapped>,
    /// A number that another image at the same place would hardly have.
    pub identity: u64,
    /// Its build, if it says so.
    pub build: Option<BuildId>,
    /// The path, or what the kernel calls it.
    pub path: String,
    /// Where the program begins, if it is one, or the loader of one.
    pub entry: Option<RemoteAddr>,
}

/// Unwind information in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The table that it is found by (`.eh_frame_hdr`).
    pub header: RemoteAddr,
    /// The end of the segment that the table lies in; the information itself lies there too.
    pub end: RemoteAddr,
}

/// All images that are mapped now.
pub fn images(memory: &Memory, maps: &[Mapping<'_>]) -> Vec<Image> {
    let starts = maps.iter().filter(|m| m.file_offset == 0 && !m.label().is_empty());
    let found = starts.filter_map(|mapping| image(memory, mapping));
    let mut left = CODE;
    let executable = |image: Image| {
        // The program may have mapped a file only to read it, and a header may say anything.
        let code = || maps.iter().filter(|m| m.executable);
        code().find(|m| m.range.contains(&image.code.start))?;
        let end = code().filter(|m| m.range.start < image.code.end).map(|m| m.range.end).max()?;
        let code = image.code.start..image.code.end.min(end);
        left = left.checked_sub(code.end.offset_from(code.start)?)?;
        Some(Image { code, ..image })
    };
    found.filter_map(executable).collect()
}

fn image(memory: &Memory, mapping: &Mapping<'_>) -> Option<Image> {
    let start = mapping.range.start;
    let mut header = [0; HEADER];
    memory.read(start, &mut header).ok()?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = u64_at(&header, 32)?;
    let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
    let size = usize::from(u16::from_le_bytes([header[54], header[55]]));
    if count > PROGRAM_HEADERS || size != PROGRAM_HEADER {
        return None;
    }
    let table = memory.read_vec(start.checked_add(table)?, count * PROGRAM_HEADER).ok()?;
    let segments: Vec<Segment> =
        table.chunks_exact(PROGRAM_HEADER).filter_map(Segment::read).collect();
    let loaded = || segments.iter().filter(|s| s.kind == PT_LOAD);
    // The first segment is the one that begins with the header.
    let bias = Bias::new(start.get().wrapping_sub(loaded().next()?.range.start & !0xfff));
    let place = |at: u64| bias.place(ImageAddr::new(at));
    let code = loaded().filter(|s| s.flags & PF_X != 0);
    let code =
        code.map(|s| s.range.clone()).reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))?;
    if code.end - code.start >= u64::from(u32::MAX) {
        return None;
    }
    let mapped = || {
        let found = segments.iter().find(|s| s.kind == PT_GNU_EH_FRAME)?.range.start;
        let end = loaded().find(|s| s.range.contains(&found))?.range.end;
        Some(Mapped { header: place(found), end: place(end) })
    };
    let mapped = mapped();
    let build = BuildId::at(memory.file(), start.get(), mapping.range.end.offset_from(start)?);
    let label = mapping.label().as_encoded_bytes();
    let path = label.strip_suffix(b" (deleted)").unwrap_or(label);
    let head = mapped.map(|mapped| memory.read_vec(mapped.header, 16)).transpose().ok()?;
    let identity = identity(&table, build.as_ref(), &head.unwrap_or_default(), path);
    let entry = u64_at(&header, 24).filter(|&entry| entry != 0).map(place);
    let code = place(code.start)..place(code.end);
    let path = String::from_utf8_lossy(path).into_owned();
    Some(Image { start, bias, code, mapped, identity, build, path, entry })
}

/// As the payload makes it, which knows no more: of the program headers and the build; or else of how
/// the table of the unwind information begins, and of the path.
fn identity(table: &[u8], build: Option<&BuildId>, head: &[u8], path: &[u8]) -> u64 {
    let words = table.chunks_exact(8).filter_map(|word| u64_at(word, 0));
    let identity = words.fold(IDENTITY_START, identify);
    let path = &path[..path.len().min(NAME_BYTES)];
    let bytes = build.map_or([head, path], |build| [build.bytes(), &[]]);
    bytes.into_iter().flatten().fold(identity, |identity, &byte| identify(identity, byte.into()))
}

/// The identity that a module has if it is loaded from this file, which has no build id.
pub fn identity_in(file: &File, path: &[u8]) -> Option<u64> {
    let table = table_in(file)?;
    let segments = || table.chunks_exact(PROGRAM_HEADER).filter_map(Segment::read);
    let head = match segments().find(|segment| segment.kind == PT_GNU_EH_FRAME) {
        Some(found) => {
            let mut head = vec![0; 16];
            file.read_exact_at(&mut head, offset_in(file, found.range.start)?).ok()?;
            head
        }
        None => Vec::new(),
    };
    Some(identity(&table, None, &head, path))
}

/// Where in its file a module has what it is loaded to this address.
pub fn offset_in(file: &File, at: u64) -> Option<u64> {
    let table = table_in(file)?;
    let segments = table.chunks_exact(PROGRAM_HEADER);
    segments.into_iter().find_map(|header| {
        let segment = Segment::read(header).filter(|segment| segment.kind == PT_LOAD)?;
        let distance =
            at.checked_sub(segment.range.start).filter(|_| segment.range.contains(&at))?;
        u64_at(header, 8)?.checked_add(distance)
    })
}

/// The program headers of a file.
fn table_in(file: &File) -> Option<Vec<u8>> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    let count = usize::from(u16::from_le_bytes([header[56], header[57]]));
    if !header.starts_with(b"\x7fELF\x02\x01") || count > PROGRAM_HEADERS {
        return None;
    }
    let mut table = vec![0; count * PROGRAM_HEADER];
    file.read_exact_at(&mut table, u64_at(&header, 32)?).ok()?;
    Some(table)
}

/// A program header.
struct Segment {
    kind: u32,
    flags: u32,
    range: Range<u64>,
}

impl Segment {
    fn read(header: &[u8]) -> Option<Self> {
        let (start, size) = (u64_at(header, 16)?, u64_at(header, 40)?);
        let range = start..start.checked_add(size)?;
        Some(Self { kind: u32_at(header, 0)?, flags: u32_at(header, 4)?, range })
    }
}
