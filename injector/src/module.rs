//! What one loaded module means to us: which allocation functions it defines, and which of its
//! words hold the address of one. Read from the target's memory, since the file may be gone.

use std::collections::HashMap;

use nix::errno::Errno;

use crate::{
    addr::{Bias, ImageAddr, RemoteAddr},
    arch::{RELOCATION_ADDRESS, RELOCATION_GLOB_DAT, RELOCATION_JUMP_SLOT},
    functions::{self, FunctionId},
    linker::{Link, dynamic_entries, u32_at, u64_at},
    memory::Memory,
};

/// Larger tables are not honest, or not ours to read in a hurry.
const TABLE_LIMIT: u64 = 256 << 20;

const SYMBOL_SIZE: usize = 24;
const RELOCATION_SIZE: usize = 24;
const STT_FUNC: u8 = goblin::elf::sym::STT_FUNC;
const STT_NOTYPE: u8 = goblin::elf::sym::STT_NOTYPE;
const STT_GNU_IFUNC: u8 = goblin::elf::sym::STT_GNU_IFUNC;

/// How a word comes to hold the address of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// By the PLT, perhaps only at the first call.
    Plt,
    /// By the loader, before the module runs.
    Eager,
    /// By the loader, into data: a pointer of the program's own.
    Data,
}

/// A word of the module that the loader fills with the address of an allocation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Where it lies.
    pub at: RemoteAddr,
    /// Which function belongs into it.
    pub function: FunctionId,
    /// How it is filled.
    pub kind: SlotKind,
}

/// A function that the module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Which one.
    pub function: FunctionId,
    /// Where it begins.
    pub at: RemoteAddr,
    /// Chosen at run time by a resolver, whose address this is.
    pub indirect: bool,
}

/// The part of a module that concerns us.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Allocation functions in it.
    pub definitions: Vec<Definition>,
    /// PLT entries of a non-PIE executable that stand for the function everywhere.
    pub canonical: Vec<(FunctionId, RemoteAddr)>,
    /// Words that hold addresses of allocation functions.
    pub slots: Vec<Slot>,
    /// A number that another file at the same place would not have.
    pub identity: u64,
}

impl Module {
    /// Reads the dynamic tables of `link`.
    ///
    /// # Errors
    /// When they are not where the dynamic section says; the module may be on its way in or out.
    pub fn read(memory: &Memory, link: &Link) -> Result<Self, Errno> {
        let entries = dynamic_entries(memory, link.dynamic)?;
        let tables = Tables { memory, base: link.base, entries: entries.iter().copied().collect() };
        let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
        let mut relocations = tables.relocations(DT_RELA, DT_RELASZ)?;
        relocations.extend(tables.relocations(DT_JMPREL, DT_PLTRELSZ)?);
        let used = relocations.iter().map(|r| u64::from(r.symbol) + 1).max().unwrap_or(0);
        let count = used.max(tables.symbol_count()?);
        let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
        let mut module = Self { identity: identity(&entries), ..Self::default() };
        let wanted = module.take_symbols(&symbols, &strings, link.bias());
        module.take_relocations(&relocations, &wanted, link.bias());
        Ok(module)
    }

    /// Sorts the symbols; answers which numbers are functions we know.
    fn take_symbols(
        &mut self,
        symbols: &[u8],
        strings: &[u8],
        bias: Bias,
    ) -> HashMap<u32, FunctionId> {
        let mut wanted = HashMap::new();
        for (index, symbol) in (0_u32..).zip(symbols.chunks_exact(SYMBOL_SIZE)) {
            let name_at = u32_at(symbol, 0).unwrap_or(0) as usize;
            let Some(name) = strings.get(name_at..) else { continue };
            let name = name.split(|&b| b == 0).next().unwrap_or_default();
            let Some(function) = functions::by_name(name) else { continue };
            wanted.insert(index, function);
            let kind = symbol[4] & 0xf;
            let section = u16::from_le_bytes([symbol[6], symbol[7]]);
            let value = ImageAddr::new(u64_at(symbol, 8).unwrap_or(0));
            if value.get() == 0 || !matches!(kind, STT_FUNC | STT_NOTYPE | STT_GNU_IFUNC) {
                continue;
            }
            let at = bias.place(value);
            if section == 0 {
                self.canonical.push((function, at));
            } else {
                let indirect = kind == STT_GNU_IFUNC;
                self.definitions.push(Definition { function, at, indirect });
            }
        }
        wanted
    }

    fn take_relocations(
        &mut self,
        relocations: &[Relocation],
        wanted: &HashMap<u32, FunctionId>,
        bias: Bias,
    ) {
        for relocation in relocations {
            let kind = match relocation.kind {
                RELOCATION_JUMP_SLOT => SlotKind::Plt,
                RELOCATION_GLOB_DAT => SlotKind::Eager,
                RELOCATION_ADDRESS if relocation.addend == 0 => SlotKind::Data,
                _ => continue,
            };
            if let Some(&function) = wanted.get(&relocation.symbol) {
                let at = bias.place(relocation.at);
                self.slots.push(Slot { at, function, kind });
            }
        }
    }
}

use goblin::elf::dynamic::{
    DT_GNU_HASH, DT_HASH, DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRSZ, DT_STRTAB,
    DT_SYMTAB,
};

struct Relocation {
    at: ImageAddr,
    kind: u32,
    symbol: u32,
    addend: u64,
}

/// The dynamic section's tables, wherever they lie.
struct Tables<'m> {
    memory: &'m Memory,
    base: u64,
    entries: HashMap<u64, u64>,
}

impl Tables<'_> {
    fn number(&self, tag: u64) -> u64 {
        self.entries.get(&tag).copied().unwrap_or(0)
    }

    /// glibc has relocated these pointers in place; musl and the vDSO have not.
    fn address(&self, tag: u64) -> Option<RemoteAddr> {
        let value = *self.entries.get(&tag)?;
        Some(RemoteAddr::new(if value < self.base { value.wrapping_add(self.base) } else { value }))
    }

    fn bytes(&self, tag: u64, length: u64) -> Result<Vec<u8>, Errno> {
        let Some(at) = self.address(tag).filter(|_| length > 0) else { return Ok(Vec::new()) };
        if length > TABLE_LIMIT {
            return Err(Errno::EFBIG);
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| Errno::EFBIG)?];
        // A count guessed too high ends at the end of the mapping.
        let read = self.memory.read_some(at, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    fn relocations(&self, table: u64, size: u64) -> Result<Vec<Relocation>, Errno> {
        let bytes = self.bytes(table, self.number(size))?;
        let relocation = |r: &[u8]| {
            let info = u64_at(r, 8)?;
            // Relocations without a symbol, nearly all of them, are not ours.
            let symbol = u32::try_from(info >> 32).ok().filter(|&s| s != 0)?;
            let kind = u32::try_from(info & 0xffff_ffff).ok()?;
            Some(Relocation {
                at: ImageAddr::new(u64_at(r, 0)?),
                kind,
                symbol,
                addend: u64_at(r, 16)?,
            })
        };
        Ok(bytes.chunks_exact(RELOCATION_SIZE).filter_map(relocation).collect())
    }

    /// How many symbols there are: the hash tables know, no other table does.
    fn symbol_count(&self) -> Result<u64, Errno> {
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

/// Where the symbol `name` of `link` lies, if it has it.
///
/// # Errors
/// As [`Module::read`].
pub fn find_symbol(memory: &Memory, link: &Link, name: &[u8]) -> Result<Option<RemoteAddr>, Errno> {
    let entries = dynamic_entries(memory, link.dynamic)?;
    let tables = Tables { memory, base: link.base, entries: entries.into_iter().collect() };
    let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
    let symbols = tables.bytes(DT_SYMTAB, tables.symbol_count()? * SYMBOL_SIZE as u64)?;
    let found = symbols.chunks_exact(SYMBOL_SIZE).find(|symbol| {
        let at = u32_at(symbol, 0).unwrap_or(0) as usize;
        let text = strings.get(at..).and_then(|s| s.split(|&b| b == 0).next());
        text == Some(name) && u64_at(symbol, 8) != Some(0)
    });
    let value = found.and_then(|symbol| u64_at(symbol, 8));
    Ok(value.map(|value| link.bias().place(ImageAddr::new(value))))
}

/// A hash of the dynamic section but for the word the loader keeps changing (FNV-1a).
fn identity(entries: &[(u64, u64)]) -> u64 {
    const DT_DEBUG: u64 = goblin::elf::dynamic::DT_DEBUG;
    let words = entries.iter().filter(|(tag, _)| *tag != DT_DEBUG).flat_map(|e| [e.0, e.1]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| (hash ^ word).wrapping_mul(0x100_0000_01b3))
}

/// The identity of the module at `link`, as [`Module::identity`], without reading its tables.
///
/// # Errors
/// When it is gone.
pub fn identity_at(memory: &Memory, dynamic: RemoteAddr) -> Result<u64, Errno> {
    dynamic_entries(memory, dynamic).map(|entries| identity(&entries))
}
