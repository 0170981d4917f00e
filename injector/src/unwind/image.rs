//! The ELF images in the target's memory, as far as unwinding is concerned: where code lies, and the
//! unwind information that is mapped with it.
//!
//! All of it is read from memory: the file may be gone, or another by now, and the vDSO has none. Only
//! what is never mapped is read from the file ([`debug_frame`](super::debug_frame)).

use std::ops::Range;

use goblin::elf::program_header::{PF_X, PT_GNU_EH_FRAME, PT_LOAD};

use crate::{
    addr::{Bias, ImageAddr, RemoteAddr},
    linker::{u32_at, u64_at},
    memory::Memory,
    proc::maps::Mapping,
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
    /// A number that other information at the same place would hardly have.
    pub identity: u64,
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
    let found = starts.filter_map(|mapping| image(memory, mapping.range.start));
    let mut left = CODE;
    let executable = |image: Image| {
        // Somebody may have mapped a file only to read it, and a header may say anything.
        let code = || maps.iter().filter(|m| m.executable);
        code().find(|m| m.range.contains(&image.code.start))?;
        let end = code().filter(|m| m.range.start < image.code.end).map(|m| m.range.end).max()?;
        let code = image.code.start..image.code.end.min(end);
        left = left.checked_sub(code.end.offset_from(code.start)?)?;
        Some(Image { code, ..image })
    };
    found.filter_map(executable).collect()
}

fn image(memory: &Memory, start: RemoteAddr) -> Option<Image> {
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
    let mut identity = hash(0, &table);
    if let Some(Mapped { header, .. }) = mapped {
        // The first words tell where the information begins and how many functions there are.
        identity = hash(identity, &memory.read_vec(header, 16).ok()?);
    }
    Some(Image { start, bias, code: place(code.start)..place(code.end), mapped, identity })
}

/// FNV-1a.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(seed ^ 0xcbf2_9ce4_8422_2325, step)
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
