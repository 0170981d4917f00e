//! The file as a row of blocks: a head with kind, lengths and checksum, then the compressed content.
//!
//! A block stands for itself. What is whole is what comes before the first block that is not; no reader
//! looks for more behind it.

use std::io::{self, Read};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};

use crate::format::disk::Disk;

/// Words that a file begins with; the number is that of the version.
pub const TITLE: &[u8] = b"heapattach recording ";
/// The version that is written.
pub const VERSION: u32 = 5;
/// The first one that can still be read.
pub const OLDEST: u32 = 1;
/// Bytes of a head.
pub const HEAD: usize = 16;
/// No content is larger: a small file must not become a large one in memory.
pub const LIMIT: usize = 16 << 20;
/// So much is read at once to see whether it is whole.
const PIECE: usize = 1 << 18;
/// The numbers that a content begins with are in its first bytes, and these in the first stored.
const SHORT: u64 = 32;
const START: usize = 4096;

/// How much is done to make a block small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// What cannot become smaller.
    None = 0,
    /// Where others wait: a quarter of the time, and up to a seventh more bytes.
    Little = 1,
    /// Measured on events of python3: the next lower level leaves a tenth more, the highest a tenth
    /// less and takes eight times as long.
    Usual = 6,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// Whose memory it is; a later one replaces an earlier one.
    About = 1,
    /// Modules and where they were mapped; a later one replaces an earlier one.
    Modules = 2,
    /// Threads; a later one replaces an earlier one.
    Threads = 3,
    /// More rows, and their stacks where they are new.
    Rows = 4,
    /// What happened next.
    Changes = 5,
    /// Sums of the rows that have changed since the snapshot before.
    Snapshot = 6,
    /// More moments.
    Moments = 7,
    /// More marks.
    Marks = 8,
    /// More names.
    Names = 9,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it holds.
    pub content: Content,
    /// Offset of its head in the file.
    pub at: u64,
    /// Bytes of its compressed content.
    pub stored: u32,
    /// Bytes of its content.
    pub length: u32,
    checksum: u32,
}

impl Content {
    /// Whether only the last one counts.
    pub fn is_replaced(self) -> bool {
        matches!(self, Self::About | Self::Modules | Self::Threads)
    }

    fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::About,
            2 => Self::Modules,
            3 => Self::Threads,
            4 => Self::Rows,
            5 => Self::Changes,
            6 => Self::Snapshot,
            7 => Self::Moments,
            8 => Self::Marks,
            9 => Self::Names,
            _ => return None,
        })
    }
}

impl Place {
    /// Where the next block is.
    pub fn end(&self) -> u64 {
        self.at + HEAD as u64 + u64::from(self.stored)
    }
}

/// The first line of a file.
pub fn title() -> Vec<u8> {
    [TITLE, VERSION.to_string().as_bytes(), b"\n"].concat()
}

/// Head and compressed content. `None` if the content is too long for a block.
pub fn encode(content: Content, bytes: &[u8], effort: Effort) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes.len()).ok().filter(|&n| n as usize <= LIMIT)?;
    let mut block = match effort {
        Effort::None => as_it_is(bytes),
        Effort::Little | Effort::Usual => {
            let mut encoder = DeflateEncoder::new(vec![0; HEAD], Compression::new(effort as u32));
            io::Write::write_all(&mut encoder, bytes).ok()?;
            encoder.finish().ok()?
        }
    };
    let stored = u32::try_from(block.len() - HEAD).ok()?;
    block[0] = content as u8;
    block[4..8].copy_from_slice(&stored.to_le_bytes());
    block[8..12].copy_from_slice(&length.to_le_bytes());
    let checksum = checksum(&block);
    block[12..HEAD].copy_from_slice(&checksum.to_le_bytes());
    Some(block)
}

/// Room for the head, and the content in pieces that say of themselves that they are not compressed: a
/// compressor that is not needed takes more time to make than a small block.
fn as_it_is(bytes: &[u8]) -> Vec<u8> {
    const LONGEST: usize = u16::MAX as usize;
    let pieces = bytes.len().div_ceil(LONGEST).max(1);
    let mut block = vec![0; HEAD];
    block.reserve(bytes.len() + 5 * pieces);
    for piece in 0..pieces {
        let rest = &bytes[piece * LONGEST..];
        let text = &rest[..rest.len().min(LONGEST)];
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        block.push(u8::from(piece + 1 == pieces));
        block.extend(length.to_le_bytes());
        block.extend((!length).to_le_bytes());
        block.extend(text);
    }
    block
}

/// Of head and stored content, except for the checksum itself.
fn checksum(block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..12]);
    hasher.update(&block[HEAD..]);
    hasher.finalize()
}

/// The block at this offset, if it is whole.
pub fn find(file: &dyn Disk, at: u64) -> Option<Place> {
    let mut head = [0; HEAD];
    file.read(&mut head, at).ok()?;
    let place = place(at, &head)?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&head[..12]);
    let mut left = place.stored as usize;
    let mut piece = vec![0; left.min(PIECE)];
    while left > 0 {
        let piece = &mut piece[..left.min(PIECE)];
        file.read(piece, place.end() - left as u64).ok()?;
        hasher.update(piece);
        left -= piece.len();
    }
    (hasher.finalize() == place.checksum).then_some(place)
}

/// Of a block that was made for this offset.
pub fn place_of(at: u64, block: &[u8]) -> Option<Place> {
    place(at, block.first_chunk()?)
}

fn place(at: u64, head: &[u8; HEAD]) -> Option<Place> {
    let word = |from: usize| {
        u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]])
    };
    let (stored, length, checksum) = (word(4), word(8), word(12));
    let is_sound = head[1..4] == [0; 3] && length as usize <= LIMIT && stored as usize <= 2 * LIMIT;
    let content = Content::of(head[0]).filter(|_| is_sound)?;
    Some(Place { content, at, stored, length, checksum })
}

/// The content of a block that was found.
pub fn read(file: &dyn Disk, place: &Place) -> Option<Vec<u8>> {
    let mut stored = vec![0; place.stored as usize];
    file.read(&mut stored, place.at + HEAD as u64).ok()?;
    let mut content = Vec::with_capacity(place.length as usize + 1);
    let limit = u64::from(place.length) + 1;
    DeflateDecoder::new(&stored[..]).take(limit).read_to_end(&mut content).ok()?;
    (content.len() == place.length as usize).then_some(content)
}

/// The first bytes of that.
pub fn read_head(file: &dyn Disk, place: &Place) -> Option<Vec<u8>> {
    let mut stored = vec![0; (place.stored as usize).min(START)];
    file.read(&mut stored, place.at + HEAD as u64).ok()?;
    let mut content = Vec::new();
    // The end is missing where the block is longer.
    let _ = DeflateDecoder::new(&stored[..]).take(SHORT).read_to_end(&mut content);
    Some(content)
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let name = c"block";
        let memory = nix::sys::memfd::memfd_create(name, nix::sys::memfd::MFdFlags::empty());
        let mut file = File::from(memory.unwrap());
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn a_block_that_differs_in_one_byte_is_none() {
        let content = b"what happened, what happened, what happened".repeat(3);
        let block = encode(Content::Marks, &content, Effort::Usual).unwrap();
        let found = file(&block);
        let place = find(&found, 0).unwrap();
        assert_eq!((place.content, place.end()), (Content::Marks, block.len() as u64));
        assert_eq!(read(&found, &place), Some(content));
        for at in 0..block.len() {
            for bit in 0..8 {
                let mut wrong = block.clone();
                wrong[at] ^= 1 << bit;
                assert_eq!(find(&file(&wrong), 0), None, "byte {at}");
            }
            assert_eq!(find(&file(&block[..at]), 0), None, "cut at {at}");
        }
    }

    #[test]
    fn a_content_is_never_longer_than_it_says() {
        let mut bomb = encode(Content::Marks, &vec![7; LIMIT], Effort::Usual).unwrap();
        assert!(bomb.len() < 1 << 16);
        bomb[8..12].copy_from_slice(&100_u32.to_le_bytes());
        let right = checksum(&bomb);
        bomb[12..HEAD].copy_from_slice(&right.to_le_bytes());
        let file = file(&bomb);
        assert_eq!(read(&file, &find(&file, 0).unwrap()), None);
        assert_eq!(encode(Content::Marks, &vec![7; LIMIT + 1], Effort::Usual), None);
    }
}
