//! The recorded blocks that were in use when a session ended: written by the tracing process, read by the one that
//! takes the moment after the session.

use std::{
    fs::File,
    io::{self, BufWriter, Read, Seek, SeekFrom, Write},
    sync::Arc,
};

use heapattach_profile::{Kind, Profile, RecordedBlock, RowId};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Blocks that are taken over; each is so many bytes of memory.
const MOST: usize = 1 << 22;
const BYTES: usize = 24;

/// A list that processes share.
#[derive(Clone, Debug)]
pub struct RecordedBlocks(Arc<File>);

/// What is in it.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The blocks, ascending.
    pub blocks: Vec<RecordedBlock>,
    /// So many found no room.
    pub left_out: u64,
}

impl RecordedBlocks {
    /// An empty one.
    ///
    /// # Errors
    /// No descriptor is left, or no memory.
    pub fn new() -> io::Result<Self> {
        let file = memfd_create(c"heapattach-blocks", MFdFlags::MFD_CLOEXEC)?;
        Ok(Self(Arc::new(File::from(file))))
    }

    /// Writes those that are in use.
    ///
    /// # Errors
    /// No memory is left.
    pub fn write(&self, profile: &Profile) -> io::Result<()> {
        self.write_all(profile.recorded_blocks())
    }

    fn write_all(&self, blocks: impl Iterator<Item = RecordedBlock>) -> io::Result<()> {
        let mut file = BufWriter::new(&*self.0);
        file.seek(SeekFrom::Start(8))?;
        let mut count = 0_usize;
        for RecordedBlock { at, kind } in blocks {
            count += 1;
            if count <= MOST {
                file.write_all(&at.to_le_bytes())?;
                file.write_all(&kind.size.to_le_bytes())?;
                file.write_all(&kind.row.0.to_le_bytes())?;
                file.write_all(&kind.interval().to_le_bytes())?;
            }
        }
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&(count.saturating_sub(MOST) as u64).to_le_bytes())?;
        file.flush()
    }

    /// What was written; `None` if nothing was.
    pub fn read(&self) -> Option<Recorded> {
        let mut bytes = Vec::new();
        let mut file = &*self.0;
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_to_end(&mut bytes).ok()?;
        let (left_out, blocks) = bytes.split_first_chunk::<8>()?;
        let (blocks, _) = blocks.as_chunks::<BYTES>();
        let mut blocks: Vec<_> = blocks.iter().filter_map(block).collect();
        blocks.sort_unstable_by_key(|block| block.at);
        blocks.dedup_by_key(|block| block.at);
        Some(Recorded { blocks, left_out: u64::from_le_bytes(*left_out) })
    }
}

fn block(bytes: &[u8; BYTES]) -> Option<RecordedBlock> {
    let (at, rest) = bytes.split_first_chunk::<8>()?;
    let (size, rest) = rest.split_first_chunk::<8>()?;
    let (row, interval) = rest.split_first_chunk::<4>()?;
    let interval = u32::from_le_bytes(*interval.first_chunk::<4>()?);
    let row = RowId(u32::from_le_bytes(*row));
    let kind = Kind::new(row, u64::from_le_bytes(*size), interval.into());
    Some(RecordedBlock { at: u64::from_le_bytes(*at), kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_as_they_were_written_and_ascend() {
        let list = RecordedBlocks::new().unwrap();
        assert!(list.read().is_none());
        let block =
            |at, size, row| RecordedBlock { at, kind: Kind::new(RowId(row), size, 512 << 10) };
        let blocks = [block(0x9000, 24, 7), block(0x5000, 1 << 40, 2)];
        list.write_all(blocks.into_iter()).unwrap();
        let read = list.read().unwrap();
        assert_eq!((read.blocks, read.left_out), (vec![blocks[1], blocks[0]], 0));
    }
}
