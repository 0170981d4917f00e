//! What one loaded module means to us: which allocation functions it defines, and which of its
//! words hold the address of one. Read from the target's memory, since the file may be gone.

pub(crate) mod build;
mod identity;
pub mod java_marks;
pub(crate) mod known_symbols;
mod lookup;
pub mod lua_marks;
pub mod perl_marks;
pub mod php_marks;
pub mod python_marks;
mod relocations;
pub mod ruby_marks;
pub mod sizer;
pub mod symbol_file;
mod symbol_hash;
pub mod tables;
pub mod v8_marks;
pub mod weak;
pub(crate) mod without_requests;

use std::collections::HashMap;

use goblin::elf::dynamic::{
    DT_JMPREL, DT_PLTRELSZ, DT_RELA, DT_RELASZ, DT_STRSZ, DT_STRTAB, DT_SYMTAB,
};
use nix::errno::Errno;

use crate::{
    arch::{RELOCATION_ADDRESS, RELOCATION_GLOB_DAT, RELOCATION_JUMP_SLOT},
    module::{
        identity::identity,
        java_marks::JavaMarks,
        lua_marks::LuaMarks,
        perl_marks::PerlMarks,
        php_marks::PhpMarks,
        python_marks::Marks,
        relocations::{Relocation, relocations_of},
        ruby_marks::RubyMarks,
        symbol_file::Symbol,
        symbol_hash::{Numbered, SymbolHash},
        tables::{Budget, SYMBOL_SIZE, Tables, name_at},
        v8_marks::V8Marks,
        weak::WeakSlot,
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

pub use identity::identity_at;
pub use lookup::{find_symbol, find_symbols};

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
    /// Words for functions of LeakSanitizer that may be missing.
    pub weak: Vec<WeakSlot>,
    /// It calls the loader for addresses of functions.
    pub asks_for_symbols: bool,
    /// What it has of a Python interpreter.
    pub python: Marks,
    /// What it has of PHP's engine.
    pub php: PhpMarks,
    /// What it has of Ruby's virtual machine.
    pub ruby: RubyMarks,
    /// What it has of Perl's interpreter.
    pub perl: PerlMarks,
    /// What it has of Lua's library.
    pub lua: LuaMarks,
    /// What it has of Java's virtual machine.
    pub java: JavaMarks,
    /// What it says of V8.
    pub v8: V8Marks,
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
        let mut weak = HashMap::new();
        // What the user names may be demangled: each symbol could be it.
        let hash = asked.functions().is_empty().then(|| SymbolHash::of(&mut tables)).flatten();
        let wanted = match hash {
            Some(hash) => module.take_named(&mut tables, hash, used, link.bias(), &mut weak)?,
            None => {
                let strings = tables.bytes(DT_STRTAB, tables.number(DT_STRSZ))?;
                let count = used.max(tables.symbol_count()?);
                let symbols = tables.bytes(DT_SYMTAB, count * SYMBOL_SIZE as u64)?;
                module.take_symbols(&symbols, &strings, link.bias(), asked, &mut weak)
            }
        };
        module.take_relocations(relocations(), &wanted, &weak, link.bias());
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
        weak: &mut HashMap<u32, usize>,
    ) -> HashMap<u32, FunctionRef> {
        let mut wanted = HashMap::new();
        for (index, symbol) in (0_u32..).zip(symbols.chunks_exact(SYMBOL_SIZE)) {
            let Some(name) = name_at(strings, u32_at(symbol, 0)) else { continue };
            wanted.extend(self.take_symbol(name, symbol, bias, asked).map(|found| (index, found)));
            weak.extend(weak::weak(name, symbol).map(|function| (index, function)));
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
        weak: &mut HashMap<u32, usize>,
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
                weak.extend(weak::weak(&name, symbol).map(|function| (number, function)));
            }
        }
        let mut own: Vec<(Numbered, &[u8])> = Vec::new();
        let interpreters = python_marks::NAMES.into_iter().chain(php_marks::NAMES);
        let interpreters = interpreters.chain(ruby_marks::NAMES).chain(perl_marks::NAMES);
        let interpreters = interpreters.chain(lua_marks::NAMES).chain(java_marks::NAMES);
        let interpreters = interpreters.chain(v8_marks::NAMES);
        for name in functions::names().chain(sizer::names()).chain(interpreters).chain(ASKING) {
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
        let is_mark = name.starts_with(b"_Py") || name.starts_with(b"Py");
        let others: [&[&[u8]]; 6] = [
            &php_marks::NAMES,
            &ruby_marks::NAMES,
            &perl_marks::NAMES,
            &lua_marks::NAMES,
            &java_marks::NAMES,
            &v8_marks::NAMES,
        ];
        if is_mark || others.iter().any(|names| names.contains(&name)) {
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

    /// A symbol that may be one of an interpreter, if it is defined here.
    fn take_mark(&mut self, name: &[u8], symbol: &[u8], bias: Bias) {
        let is_here = symbol.get(6..8).is_some_and(|section| section != [0; 2]);
        let (value, size) = (u64_at(symbol, 8).unwrap_or(0), u64_at(symbol, 16).unwrap_or(0));
        if is_here && value != 0 {
            let at = bias.place(ImageAddr::new(value));
            self.python.take(name, at, size);
            self.php.take(name, at, size);
            self.ruby.take(name, at, size);
            self.perl.take(name, at, size);
            self.lua.take(name, at, size);
            self.java.take(name, at);
            self.v8.take(name, at);
        }
    }

    fn take_relocations(
        &mut self,
        relocations: impl Iterator<Item = Relocation>,
        wanted: &HashMap<u32, FunctionRef>,
        weak: &HashMap<u32, usize>,
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
            } else if let Some(&function) = weak.get(&relocation.symbol)
                && self.weak.len() < FINDS_LIMIT
            {
                self.weak.push(WeakSlot { at: bias.place(relocation.at), function, kind });
            }
        }
    }
}

#[cfg(test)]
mod tests;
