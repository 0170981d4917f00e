//! The tables a dynamic section points to, read from the target's memory within a budget.

use std::collections::HashMap;

use goblin::elf::dynamic::{DT_GNU_HASH, DT_HASH, DT_STRSZ, DT_STRTAB};
use nix::errno::Errno;

use heapattach_process::{addr::RemoteAddr, little_endian::u32_at, memory::Memory};

pub(crate) const SYMBOL_SIZE: usize = 24;
pub(crate) const RELOCATION_SIZE: usize = 24;

/// The names we look for are shorter: no string is searched further for its end.
const NAME_LIMIT: usize = 80;

/// Tables of one module that are larger together are not honest, or not ours to read in a hurry.
const MODULE_LIMIT: u64 = 256 << 20;

/// How much is read of all modules in one survey, at most.
const SURVEY_LIMIT: u64 = 1 << 30;

/// No room is made for more before it was read.
const AT_FIRST: usize = 16 << 20;

/// What is read where a few bytes are wanted.
const PAGE: usize = 4096;

/// So much is read at once.
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

#[cfg(test)]
impl Budget {
    /// What was read so far.
    pub(crate) fn spent(&self) -> u64 {
        SURVEY_LIMIT - self.0
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
    /// Those that pieces were read of.
    pages: HashMap<u64, Vec<u8>>,
    /// The budget was too small for something.
    is_over: bool,
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
            pages: HashMap::new(),
            is_over: false,
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
        // Zero pages that were never touched: a length that a hostile section claims costs nothing
        // before there is memory behind it.
        let (mut bytes, mut done) = (vec![0; length.min(AT_FIRST)], 0);
        while done < length {
            let step = CHUNK.min(length - done);
            bytes.resize(bytes.len().max(done + step), 0);
            let from = at.checked_add(done as u64).ok_or(Errno::EFAULT)?;
            let read = match self.memory.read_some(from, &mut bytes[done..done + step]) {
                Ok(read) => read,
                Err(_) if done > 0 => 0,
                Err(errno) => return Err(errno),
            };
            done += read;
            if read < step {
                break;
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    /// A few bytes of a table; `None` if they are not all there.
    pub(crate) fn piece<const N: usize>(&mut self, tag: u64, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (self.fill(tag, at, &mut bytes)? == N).then_some(bytes)
    }

    /// A string of the table of strings, if it ends soon enough to be one of ours.
    pub(crate) fn name(&mut self, at: u32) -> Option<Vec<u8>> {
        let left = self.number(DT_STRSZ).checked_sub(at.into())?;
        let mut bytes = [0; NAME_LIMIT];
        let room = usize::try_from(left).unwrap_or(NAME_LIMIT).min(NAME_LIMIT);
        let read = self.fill(DT_STRTAB, at.into(), bytes.get_mut(..room)?)?;
        let name = bytes.get(..read)?;
        Some(name[..name.iter().position(|&byte| byte == 0)?].to_vec())
    }

    /// Whether something was not read since there is so much of it: then what was found is not all.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Fills as much of `bytes` as is mapped. Of the same page often, too: a chain may be long, and
    /// lead through one page.
    fn fill(&mut self, tag: u64, at: u64, bytes: &mut [u8]) -> Option<usize> {
        self.spend(bytes.len() as u64).ok()?;
        let from = self.address(tag)?.checked_add(at)?;
        let mut done = 0;
        while done < bytes.len() {
            let at = from.checked_add(done as u64)?.get();
            let within = at % PAGE as u64;
            let Some(page) = self.page(at - within) else { break };
            let rest = page.get(usize::try_from(within).ok()?..).unwrap_or_default();
            let length = rest.len().min(bytes.len() - done);
            if length == 0 {
                break;
            }
            bytes[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        Some(done)
    }

    fn page(&mut self, at: u64) -> Option<&[u8]> {
        if !self.pages.contains_key(&at) {
            self.spend(PAGE as u64).ok()?;
            let mut page = vec![0; PAGE];
            let read = self.memory.read_some(RemoteAddr::new(at), &mut page).ok()?;
            page.truncate(read);
            self.pages.insert(at, page);
        }
        self.pages.get(&at).map(Vec::as_slice)
    }

    fn spend(&mut self, bytes: u64) -> Result<(), Errno> {
        let left = self.left.checked_sub(bytes).zip(self.budget.0.checked_sub(bytes));
        self.is_over |= left.is_none();
        (self.left, self.budget.0) = left.ok_or(Errno::EFBIG)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_process::proc::Process;

    #[test]
    fn what_is_read_of_one_page_again_and_again_comes_to_an_end() {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&process).unwrap();
        let word = [7_u8; 8];
        let entries = [(DT_STRTAB, word.as_ptr().addr() as u64)];
        let mut budget = Budget(PAGE as u64 * 3);
        let mut tables = Tables::new(&memory, 0, &entries, &mut budget);
        let read = (0..10_000).take_while(|_| tables.piece(DT_STRTAB, 0) == Some(word)).count();
        assert!((1..10_000).contains(&read) && tables.is_over(), "{read}");
    }
}
