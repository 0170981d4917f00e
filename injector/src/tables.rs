//! The tables a dynamic section points to, read from the target's memory within a budget.

use std::collections::HashMap;

use goblin::elf::dynamic::{DT_GNU_HASH, DT_HASH};
use nix::errno::Errno;

use crate::{addr::RemoteAddr, linker::u32_at, memory::Memory};

pub(crate) const SYMBOL_SIZE: usize = 24;
pub(crate) const RELOCATION_SIZE: usize = 24;

/// The names we look for are shorter: no string is searched further for its end.
const NAME_LIMIT: usize = 64;

/// Tables of one module that are larger together are not honest, or not ours to read in a hurry.
const MODULE_LIMIT: u64 = 256 << 20;

/// How much is read of all modules in one survey, at most.
const SURVEY_LIMIT: u64 = 1 << 30;

/// Tables grow by so much while they are read: a size that a hostile section claims costs nothing
/// before there is memory behind it.
const CHUNK: usize = 1 << 20;

/// How many bytes may still be read in this survey.
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// Takes so many bytes, if they are left.
    pub(crate) fn spend(&mut self, bytes: u64) -> Option<()> {
        self.0 = self.0.checked_sub(bytes).filter(|_| bytes <= MODULE_LIMIT)?;
        Some(())
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(SURVEY_LIMIT)
    }
}

/// The dynamic section's tables, wherever they lie.
pub(crate) struct Tables<'m> {
    memory: &'m Memory,
    base: u64,
    entries: HashMap<u64, u64>,
    left: u64,
    budget: &'m mut Budget,
}

impl<'m> Tables<'m> {
    pub(crate) fn new(
        memory: &'m Memory,
        base: u64,
        entries: &[(u64, u64)],
        budget: &'m mut Budget,
    ) -> Self {
        Self {
            memory,
            base,
            entries: entries.iter().copied().collect(),
            left: MODULE_LIMIT,
            budget,
        }
    }

    /// The value of an entry, or 0.
    pub(crate) fn number(&self, tag: u64) -> u64 {
        self.entries.get(&tag).copied().unwrap_or(0)
    }

    /// glibc has relocated these pointers in place; musl and the vDSO have not.
    fn address(&self, tag: u64) -> Option<RemoteAddr> {
        let value = *self.entries.get(&tag)?;
        Some(RemoteAddr::new(if value < self.base { value.wrapping_add(self.base) } else { value }))
    }

    /// `length` bytes of a table, or fewer: a count guessed too high ends with the mapping.
    pub(crate) fn bytes(&mut self, tag: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let Some(at) = self.address(tag).filter(|_| length > 0) else { return Ok(Vec::new()) };
        self.spend(length)?;
        let length = usize::try_from(length).map_err(|_| Errno::EFBIG)?;
        let mut bytes = Vec::new();
        while bytes.len() < length {
            let done = bytes.len();
            let step = CHUNK.min(length - done);
            bytes.resize(done + step, 0);
            let from = at.checked_add(done as u64).ok_or(Errno::EFAULT)?;
            let read = match self.memory.read_some(from, &mut bytes[done..]) {
                Ok(read) => read,
                Err(_) if done > 0 => 0,
                Err(errno) => return Err(errno),
            };
            if read < step {
                bytes.truncate(done + read);
                break;
            }
        }
        Ok(bytes)
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Errno> {
        self.left = self.left.checked_sub(bytes).ok_or(Errno::EFBIG)?;
        self.budget.0 = self.budget.0.checked_sub(bytes).ok_or(Errno::EFBIG)?;
        Ok(())
    }

    /// How many symbols there are: the hash tables know, no other table does.
    pub(crate) fn symbol_count(&mut self) -> Result<u64, Errno> {
        if self.entries.contains_key(&DT_HASH) {
            let header = self.bytes(DT_HASH, 8)?;
            return Ok(u32_at(&header, 4).unwrap_or(0).into());
        }
        let Some(at) = self.address(DT_GNU_HASH) else { return Ok(0) };
        let header = self.bytes(DT_GNU_HASH, 16)?;
        let field = |i| u64::from(u32_at(&header, i).unwrap_or(0));
        let (buckets, first, bloom) = (field(0), field(4), field(8));
        let chains_at = 16 + bloom * 8 + buckets * 4;
        let table = self.bytes(DT_GNU_HASH, chains_at)?;
        let heads = table.get(usize::try_from(16 + bloom * 8).unwrap_or(usize::MAX)..);
        let last = heads.unwrap_or_default().chunks_exact(4).filter_map(|b| u32_at(b, 0)).max();
        let Some(last) = last.map(u64::from).filter(|&last| last >= first) else {
            return Ok(first);
        };
        // The highest chain ends with the first odd hash.
        let mut index = last;
        let mut block = [0; 4096];
        loop {
            let from = at.offset(chains_at + (index - first) * 4);
            let read = self.memory.read_some(from, &mut block)?;
            self.spend(read as u64)?;
            for hash in block[..read].chunks_exact(4) {
                index += 1;
                if hash[0] & 1 != 0 {
                    return Ok(index);
                }
            }
            if read < block.len() || index - last > 1 << 24 {
                return Ok(index);
            }
        }
    }
}

/// The name at `at` of a string table, if it ends soon enough to be one of ours.
pub(crate) fn name_at(strings: &[u8], at: Option<u32>) -> Option<&[u8]> {
    let from = strings.get(usize::try_from(at?).ok()?..)?;
    let from = &from[..from.len().min(NAME_LIMIT)];
    Some(&from[..from.iter().position(|&b| b == 0)?])
}
