//! What one loaded module means to us: which allocation functions it defines, and which of its
//! words hold the address of one. Read from the target's memory, since the file may be gone.

use std::collections::HashMap;

use goblin::elf::dynamic::{
    DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRSZ, DT_STRTAB, DT_SYMTAB,
};
use nix::errno::Errno;

use crate::{
    addr::{Bias, ImageAddr, RemoteAddr},
    arch::{RELOCATION_ADDRESS, RELOCATION_GLOB_DAT, RELOCATION_JUMP_SLOT},
    asked::Asked,
    entry::Family,
    functions::FunctionRef,
    linker::{Link, dynamic_entries, u32_at, u64_at},
    memory::Memory,
    python::Marks,
    symbol_file::{Symbol, SymbolFile},
    tables::{Budget, RELOCATION_SIZE, SYMBOL_SIZE, Tables, name_at},
};

/// No honest module has more slots or definitions that concern us: every one is looked at while
/// the target stands still.
const FINDS_LIMIT: usize = 1 << 16;

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
    pub function: FunctionRef,
    /// How it is filled.
    pub kind: SlotKind,
}

/// A function that the module defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Which one.
    pub function: FunctionRef,
    /// Where it begins.
    pub at: RemoteAddr,
    /// Chosen at run time by a resolver, whose address this is.
    pub indirect: bool,
    /// How long it is, or 0.
    pub size: u64,
    /// Other modules can be bound to it; else only its own module's file names it.
    pub is_dynamic: bool,
}

/// The part of a module that concerns us.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Allocation functions in it.
    pub definitions: Vec<Definition>,
    /// PLT entries of a non-PIE executable that stand for the function everywhere.
    pub canonical: Vec<(FunctionRef, RemoteAddr)>,
    /// Words that hold addresses of allocation functions.
    pub slots: Vec<Slot>,
    /// What it has of a Python interpreter.
    pub python: Marks,
    /// A number that another file at the same place would not have.
    pub identity: u64,
}

impl Module {
    /// Reads the dynamic tables of `link`.
    ///
    /// # Errors
    /// When they are not where the dynamic section says (the module may be on its way in or out),
    /// and `EFBIG` when they are larger than `budget`.
    pub fn read(
        memory: &Memory,
        link: &Link,
        asked: Asked,
        budget: &mut Budget,
    ) -> Result<Self, Errno> {
        let entries = dynamic_entries(memory, link.dynamic)?;
        let mut tables = Tables::new(memory, link.base, &entries, budget);
        let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
        let relocations = [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)]
            .map(|(table, size)| tables.bytes(table, tables.number(size)));
        let [eager, lazy] = relocations;
        let (eager, lazy) = (eager?, lazy?);
        let relocations = || relocations_of(&eager).chain(relocations_of(&lazy));
        let used = relocations().map(|r| u64::from(r.symbol) + 1).max().unwrap_or(0);
        let count = used.max(tables.symbol_count()?);
        let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
        let mut module = Self { identity: identity(&entries), ..Self::default() };
        let wanted = module.take_symbols(&symbols, &strings, link.bias(), asked);
        module.take_relocations(relocations(), &wanted, link.bias());
        let finds = [module.definitions.len(), module.canonical.len(), module.slots.len()];
        if finds.iter().any(|&n| n > FINDS_LIMIT) { Err(Errno::EFBIG) } else { Ok(module) }
    }

    /// One without dynamic tables.
    ///
    /// # Errors
    /// When it is gone.
    pub fn without_tables(memory: &Memory, link: &Link) -> Result<Self, Errno> {
        Ok(Self { identity: identity_at(memory, link.dynamic)?, ..Self::default() })
    }

    /// Adds the functions that only the module's file names. `pages`: those for pages too, which the
    /// dynamic loader has for itself.
    pub fn add_symbols(&mut self, symbols: &SymbolFile, bias: Bias, asked: Asked, pages: bool) {
        for Symbol { name, at, size, indirect } in symbols.functions() {
            let function = asked.find(name);
            if let Some(function) = function.filter(|f| pages || f.family == Family::Heap) {
                let at = bias.place(at);
                self.add(Definition { function, at, indirect, size, is_dynamic: false });
            }
        }
    }

    /// Adds a function that nobody else can call by its name.
    pub fn add(&mut self, definition: Definition) {
        let is_same = |d: &Definition| d.at == definition.at && d.function == definition.function;
        if self.definitions.len() < FINDS_LIMIT && !self.definitions.iter().any(is_same) {
            self.definitions.push(definition);
        }
    }

    /// Sorts the symbols; answers which numbers are functions we know.
    fn take_symbols(
        &mut self,
        symbols: &[u8],
        strings: &[u8],
        bias: Bias,
        asked: Asked,
    ) -> HashMap<u32, FunctionRef> {
        let mut wanted = HashMap::new();
        for (index, symbol) in (0_u32..).zip(symbols.chunks_exact(SYMBOL_SIZE)) {
            let Some(name) = name_at(strings, u32_at(symbol, 0)) else { continue };
            if name.starts_with(b"_Py") || name.starts_with(b"Py") {
                self.take_mark(name, symbol, bias);
                continue;
            }
            let Some(function) = asked.find(name) else { continue };
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
                let size = u64_at(symbol, 16).unwrap_or(0);
                let is_dynamic = true;
                self.definitions.push(Definition { function, at, indirect, size, is_dynamic });
            }
        }
        wanted
    }

    /// A symbol that may be one of a Python interpreter, if it is defined here.
    fn take_mark(&mut self, name: &[u8], symbol: &[u8], bias: Bias) {
        let is_here = symbol.get(6..8).is_some_and(|section| section != [0; 2]);
        let (value, size) = (u64_at(symbol, 8).unwrap_or(0), u64_at(symbol, 16).unwrap_or(0));
        if is_here && value != 0 {
            self.python.take(name, bias.place(ImageAddr::new(value)), size);
        }
    }

    fn take_relocations(
        &mut self,
        relocations: impl Iterator<Item = Relocation>,
        wanted: &HashMap<u32, FunctionRef>,
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

struct Relocation {
    at: ImageAddr,
    kind: u32,
    symbol: u32,
    addend: u64,
}

/// The relocations that name a symbol. Nearly all do not, and are not ours.
fn relocations_of(bytes: &[u8]) -> impl Iterator<Item = Relocation> {
    bytes.chunks_exact(RELOCATION_SIZE).filter_map(|r| {
        let info = u64_at(r, 8)?;
        let symbol = u32::try_from(info >> 32).ok().filter(|&s| s != 0)?;
        let kind = u32::try_from(info & 0xffff_ffff).ok()?;
        Some(Relocation { at: ImageAddr::new(u64_at(r, 0)?), kind, symbol, addend: u64_at(r, 16)? })
    })
}

/// Where the symbol `name` of `link` lies, if it has it.
///
/// # Errors
/// As [`Module::read`].
pub fn find_symbol(memory: &Memory, link: &Link, name: &[u8]) -> Result<Option<RemoteAddr>, Errno> {
    Ok(find_symbols(memory, link, &[name])?.into_iter().next().flatten())
}

/// The same for several of them.
///
/// # Errors
/// As [`find_symbol`].
pub fn find_symbols(
    memory: &Memory,
    link: &Link,
    names: &[&[u8]],
) -> Result<Vec<Option<RemoteAddr>>, Errno> {
    let entries = dynamic_entries(memory, link.dynamic)?;
    let mut budget = Budget::default();
    let mut tables = Tables::new(memory, link.base, &entries, &mut budget);
    let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
    let count = tables.symbol_count()?;
    let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
    let mut found = vec![None; names.len()];
    for symbol in symbols.chunks_exact(SYMBOL_SIZE) {
        let Some(name) = name_at(&strings, u32_at(symbol, 0)) else { continue };
        let Some(number) = names.iter().position(|wanted| *wanted == name) else { continue };
        if let Some(value) = u64_at(symbol, 8).filter(|&value| value != 0) {
            found[number] = found[number].or(Some(link.bias().place(ImageAddr::new(value))));
        }
    }
    Ok(found)
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
