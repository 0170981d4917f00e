//! What one loaded module means to us: which allocation functions it defines, and which of its
//! words hold the address of one. Read from the target's memory, since the file may be gone.

pub(crate) mod known_symbols;
pub mod python_marks;
pub mod sizer;
pub mod symbol_file;
mod symbol_hash;
pub mod tables;

use std::collections::HashMap;

use goblin::elf::dynamic::{
    DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRSZ, DT_STRTAB, DT_SYMTAB,
};
use nix::errno::Errno;

use crate::{
    arch::{RELOCATION_ADDRESS, RELOCATION_GLOB_DAT, RELOCATION_JUMP_SLOT},
    module::{
        python_marks::Marks,
        symbol_file::Symbol,
        symbol_hash::{Numbered, SymbolHash},
        tables::{Budget, RELOCATION_SIZE, SYMBOL_SIZE, Tables, name_at},
    },
};
use heapattach_entry::{
    Family,
    functions::{self, FunctionRef},
    user_hooks::UserHooks,
};
use heapattach_process::{
    addr::{Bias, ImageAddr, RemoteAddr},
    linker::{Link, dynamic_entries},
    little_endian::{u32_at, u64_at},
    memory::Memory,
};

/// No honest module has more slots or definitions that concern us: every one is looked at while
/// the target is stopped.
const FINDS_LIMIT: usize = 1 << 16;

/// What asks the loader for addresses of functions.
const ASKING: [&[u8]; 2] = [b"dlsym", b"dlvsym"];

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Module {
    /// Allocation functions in it.
    pub definitions: Vec<Definition>,
    /// PLT entries of a non-PIE executable that stand for the function everywhere.
    pub canonical: Vec<(FunctionRef, RemoteAddr)>,
    /// Words that hold addresses of allocation functions.
    pub slots: Vec<Slot>,
    /// Functions that tell how large a block is.
    pub sizers: Vec<(&'static str, RemoteAddr)>,
    /// It calls the loader for addresses of functions.
    pub asks_for_symbols: bool,
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
        asked: UserHooks,
        budget: &mut Budget,
    ) -> Result<Self, Errno> {
        let entries = dynamic_entries(memory, link.dynamic)?;
        let mut tables = Tables::new(memory, link.base, &entries, budget);
        let relocations = [(DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)]
            .map(|(table, size)| tables.bytes(table, tables.number(size)));
        let [eager, lazy] = relocations;
        let (eager, lazy) = (eager?, lazy?);
        let relocations = || relocations_of(&eager).chain(relocations_of(&lazy));
        let used = relocations().map(|r| u64::from(r.symbol) + 1).max().unwrap_or(0);
        let mut module = Self { identity: identity(&entries), ..Self::default() };
        // What the user names may be demangled: each symbol could be it.
        let hash = asked.functions().is_empty().then(|| SymbolHash::of(&mut tables)).flatten();
        let wanted = match hash {
            Some(hash) => module.take_named(&mut tables, hash, used, link.bias())?,
            None => {
                let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
                let count = used.max(tables.symbol_count()?);
                let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
                module.take_symbols(&symbols, &strings, link.bias(), asked)
            }
        };
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
    pub fn add_symbols<'s>(
        &mut self,
        symbols: impl IntoIterator<Item = Symbol<'s>>,
        bias: Bias,
        asked: UserHooks,
        pages: bool,
    ) {
        for Symbol { name, at, size, indirect } in symbols {
            self.take_sizer(name, bias.place(at), indirect);
            let function = asked.find(name);
            if let Some(function) = function.filter(|f| pages || f.family == Family::Heap) {
                let at = bias.place(at);
                self.add(Definition { function, at, indirect, size, is_dynamic: false });
            }
        }
    }

    /// Adds a function that no other module can call by its name.
    pub fn add(&mut self, definition: Definition) {
        let is_same = |d: &Definition| d.at == definition.at && d.function == definition.function;
        if self.definitions.len() < FINDS_LIMIT && !self.definitions.iter().any(is_same) {
            self.definitions.push(definition);
        }
    }

    /// Sorts all symbols; answers which numbers are functions we know.
    fn take_symbols(
        &mut self,
        symbols: &[u8],
        strings: &[u8],
        bias: Bias,
        asked: UserHooks,
    ) -> HashMap<u32, FunctionRef> {
        let mut wanted = HashMap::new();
        for (index, symbol) in (0_u32..).zip(symbols.chunks_exact(SYMBOL_SIZE)) {
            let Some(name) = name_at(strings, u32_at(symbol, 0)) else { continue };
            wanted.extend(self.take_symbol(name, symbol, bias, asked).map(|found| (index, found)));
        }
        wanted
    }

    /// The same, but only of symbols that matter: those with a name we know, and those that are not
    /// found by their names since they are other modules'.
    fn take_named(
        &mut self,
        tables: &mut Tables<'_>,
        hash: SymbolHash,
        used: u64,
        bias: Bias,
    ) -> Result<HashMap<u32, FunctionRef>, Errno> {
        let mut wanted = HashMap::new();
        let mut take = |number, name: &[u8], symbol: &[u8]| {
            let found = self.take_symbol(name, symbol, bias, UserHooks::default());
            wanted.extend(found.map(|found| (number, found)));
        };
        let others = hash.others(tables, used);
        let others = tables.bytes(DT_SYMTAB, others * SYMBOL_SIZE as u64)?;
        for (number, symbol) in (0_u32..).zip(others.chunks_exact(SYMBOL_SIZE)) {
            if let Some(name) = u32_at(symbol, 0).and_then(|at| tables.name(at)) {
                take(number, &name, symbol);
            }
        }
        let mut own: Vec<(Numbered, &[u8])> = Vec::new();
        for name in
            functions::names().chain(sizer::names()).chain(python_marks::NAMES).chain(ASKING)
        {
            own.extend(hash.find(tables, name).into_iter().map(|found| (found, name)));
        }
        // Of several definitions the first one counts.
        own.sort_unstable_by_key(|(found, _)| found.number);
        for (found, name) in own {
            take(found.number, name, &found.symbol);
        }
        if tables.is_over() { Err(Errno::EFBIG) } else { Ok(wanted) }
    }

    /// Takes in what a symbol is to us; the function, if it is one that we know.
    fn take_symbol(
        &mut self,
        name: &[u8],
        symbol: &[u8],
        bias: Bias,
        asked: UserHooks,
    ) -> Option<FunctionRef> {
        if name.starts_with(b"_Py") || name.starts_with(b"Py") {
            self.take_mark(name, symbol, bias);
            return None;
        }
        self.asks_for_symbols |= ASKING.contains(&name);
        let kind = symbol[4] & 0xf;
        let section = u16::from_le_bytes([symbol[6], symbol[7]]);
        let Some(function) = asked.find(name) else {
            let at = u64_at(symbol, 8).filter(|at| section != 0 && *at != 0);
            if let Some(at) = at.map(ImageAddr::new) {
                self.take_sizer(name, bias.place(at), kind != STT_FUNC);
            }
            return None;
        };
        let value = ImageAddr::new(u64_at(symbol, 8).unwrap_or(0));
        if value.get() == 0 || !matches!(kind, STT_FUNC | STT_NOTYPE | STT_GNU_IFUNC) {
            return Some(function);
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
        Some(function)
    }

    /// A symbol that may be a function that tells how large a block is.
    fn take_sizer(&mut self, name: &[u8], at: RemoteAddr, is_chosen: bool) {
        let Some(name) = sizer::known(name).filter(|_| !is_chosen) else { return };
        if !self.sizers.iter().any(|(known, _)| *known == name) {
            self.sizers.push((name, at));
        }
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
    let mut found = vec![None; names.len()];
    if let Some(hash) = SymbolHash::of(&mut tables) {
        for (found, name) in found.iter_mut().zip(names) {
            let all = hash.find(&mut tables, name);
            let first = all.iter().filter_map(|one| {
                Some((one.number, u64_at(&one.symbol, 8).filter(|&value| value != 0)?))
            });
            let value = first.min().map(|(_, value)| value);
            *found = value.map(|value| link.bias().place(ImageAddr::new(value)));
        }
        return if tables.is_over() { Err(Errno::EFBIG) } else { Ok(found) };
    }
    let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
    let count = tables.symbol_count()?;
    let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
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

#[cfg(test)]
mod tests {
    use std::{
        path::PathBuf,
        process::{Child, Command},
    };

    use super::*;
    use heapattach_entry::user_hooks::parse;
    use heapattach_process::{
        linker::Rendezvous,
        proc::{Process, maps},
    };

    /// The modules of this very process.
    fn own() -> (Memory, Vec<Link>) {
        let process = Process::open(std::process::id().cast_signed()).unwrap();
        let text = process.read("maps").unwrap();
        let maps = maps::parse(&text).unwrap();
        let memory = Memory::open(&process).unwrap();
        let lists = Rendezvous::find(&memory, &process.auxv().unwrap(), &maps).unwrap();
        let links = lists.modules(&memory).unwrap();
        (memory, links)
    }

    /// Where the user names a function all symbols are looked at.
    fn thorough() -> UserHooks {
        UserHooks::new(vec![parse("no_such_function=malloc").unwrap()], |name| {
            String::from_utf8_lossy(name).into_owned()
        })
    }

    #[test]
    fn what_is_found_by_name_is_what_is_found_among_all_symbols() {
        let (memory, links) = own();
        assert!(links.iter().any(|link| link.name.ends_with(b"libc.so.6")));
        for link in &links {
            let read = |asked| Module::read(&memory, link, asked, &mut Budget::default()).unwrap();
            let name = String::from_utf8_lossy(&link.name);
            assert_eq!(read(UserHooks::default()), read(thorough()), "{name}");
        }
        let libc = links.iter().find(|link| link.name.ends_with(b"libc.so.6")).unwrap();
        let module =
            Module::read(&memory, libc, UserHooks::default(), &mut Budget::default()).unwrap();
        assert!(module.definitions.iter().any(|found| found.function.name == "malloc"));
        let names: [&[u8]; 3] = [b"malloc", b"no_such_function", b"free"];
        let found = find_symbols(&memory, libc, &names).unwrap();
        assert!(found[0].is_some() && found[1].is_none() && found[2].is_some());
    }

    /// However slow the machine is.
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

    /// Another process, with a library of many functions in it.
    struct Large {
        child: Child,
        folder: PathBuf,
    }

    impl Large {
        fn new() -> Self {
            let folder =
                std::env::temp_dir().join(format!("heapattach-large-{}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            let function =
                |n| format!(".globl number_{n}\n.type number_{n},@function\nnumber_{n}: ret\n");
            let source: String = (0..20_000).map(function).collect();
            std::fs::write(folder.join("large.s"), source).unwrap();
            let mut cc = Command::new("cc");
            let cc =
                cc.current_dir(&folder).args(["-shared", "-nostdlib", "-o", "large.so", "large.s"]);
            assert!(cc.status().expect("there is a C compiler").success());
            let mut sleep = Command::new("sleep");
            let child =
                sleep.arg("1000").env("LD_PRELOAD", folder.join("large.so")).spawn().unwrap();
            Self { child, folder }
        }

        /// The library, as soon as it is loaded.
        fn library(&self) -> (Memory, Link) {
            let began = std::time::Instant::now();
            while began.elapsed() < PATIENCE {
                if let Some(found) = self.loaded() {
                    return found;
                }
                std::thread::yield_now();
            }
            panic!("it was not loaded within {PATIENCE:?}");
        }

        fn loaded(&self) -> Option<(Memory, Link)> {
            let process = Process::open(self.child.id().cast_signed()).ok()?;
            let text = process.read("maps").ok()?;
            let memory = Memory::open(&process).ok()?;
            let lists = Rendezvous::find(&memory, &process.auxv().ok()?, &maps::parse(&text).ok()?);
            let links = lists.ok()?.modules(&memory).ok()?;
            let link = links.into_iter().find(|link| link.name.ends_with(b"large.so"))?;
            // The loader makes the addresses of its tables whole before it says that it is done.
            Module::read(&memory, &link, thorough(), &mut Budget::default()).ok()?;
            find_symbol(&memory, &link, b"number_1").ok()??;
            Some((memory, link))
        }
    }

    impl Drop for Large {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn of_a_large_module_few_pages_are_read() {
        let large = Large::new();
        let (memory, link) = large.library();
        let spent = |asked| {
            let mut budget = Budget::default();
            Module::read(&memory, &link, asked, &mut budget).unwrap();
            budget.spent()
        };
        let (by_name, among_all) = (spent(UserHooks::default()), spent(thorough()));
        assert!(among_all > 500_000, "{among_all}");
        assert!(by_name < among_all / 2, "{by_name} of {among_all} bytes");
    }
}
