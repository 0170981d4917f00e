//! What a symbol table names: functions, for modules without DWARF, or variables.

use std::cmp::Reverse;

use object::{
    elf::{
        SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC,
        STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, SymbolType,
    },
    read::elf::{SectionHeader, Sym},
};

use super::elf::{Allowance, Elf, Source};

/// The largest programs have a few million.
const SYMBOLS_LIMIT: usize = 1 << 24;
/// Longer names are cut.
const NAME_LIMIT: usize = 64 << 10;

/// Which of a file's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `.symtab`: everything, unless stripped.
    Full,
    /// `.dynsym`: what other modules may call.
    Dynamic,
}

/// What of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Functions.
    Code,
    /// Variables.
    Data,
}

/// Functions, or variables, by address.
#[derive(Debug, Default)]
pub struct SymbolTable {
    symbols: Vec<Symbol>,
    names: Vec<u8>,
}

#[derive(Debug)]
struct Symbol {
    address: u64,
    size: u64,
    /// Where in `names`.
    name: usize,
    /// Of two names for one address the better has the lesser rank.
    rank: u8,
}

impl SymbolTable {
    /// Reads one table; empty if the file has none.
    pub fn read(
        source: &Source,
        elf: &Elf<'_>,
        table: Table,
        named: Named,
        allowance: &Allowance,
    ) -> Self {
        Self::try_read(source, elf, table, named, allowance).unwrap_or_default()
    }

    fn try_read(
        source: &Source,
        elf: &Elf<'_>,
        table: Table,
        named: Named,
        allowance: &Allowance,
    ) -> Option<Self> {
        let (raw, kind) = match table {
            Table::Full => (elf.elf_symbol_table(), SHT_SYMTAB),
            Table::Dynamic => (elf.elf_dynamic_symbol_table(), SHT_DYNSYM),
        };
        if raw.is_empty() {
            return None;
        }
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        let strings = sections.section(raw.section()).ok().filter(|s| s.sh_type(endian) == kind)?;
        let names = source.numbered(elf, strings.link(endian), allowance)?;
        let mut symbols = Vec::new();
        for (index, symbol) in raw.enumerate().take(SYMBOLS_LIMIT) {
            let section = raw.symbol_section(endian, symbol, index).ok().flatten();
            let header = section.and_then(|section| sections.section(section).ok());
            let has = |flag| header.is_some_and(|h| h.sh_flags(endian).contains(flag));
            let (kind, binding) = (symbol.st_type(), symbol.st_bind());
            let rank = match named {
                Named::Code if has(SHF_EXECINSTR) => rank_of_code(kind),
                Named::Data if has(SHF_ALLOC) && !has(SHF_EXECINSTR) => rank_of_data(kind),
                _ => None,
            };
            let Some(rank) = rank.map(|rank| rank + rank_of_binding(binding)) else { continue };
            let name = usize::try_from(symbol.st_name(endian)).ok()?;
            let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
            // `$x` and its like mark kinds of code on Arm.
            if name_at(&names, name).is_some_and(|name| !name.is_empty() && name[0] != b'$') {
                symbols.push(Symbol { address, size, name, rank });
            }
        }
        Some(Self::new(symbols, names))
    }

    /// Adds the functions of another table of the same module.
    pub fn add(&mut self, other: Self) {
        let mut names = std::mem::take(&mut self.names);
        // The last name may lack its end.
        names.push(0);
        let from = names.len();
        names.extend(other.names);
        let mut symbols = std::mem::take(&mut self.symbols);
        symbols.extend(other.symbols.into_iter().map(|s| Symbol { name: s.name + from, ..s }));
        *self = Self::new(symbols, names);
    }

    fn new(mut symbols: Vec<Symbol>, names: Vec<u8>) -> Self {
        let name = |symbol: &Symbol| name_at(&names, symbol.name).unwrap_or_default();
        let underscores = |name: &[u8]| name.iter().take_while(|&&byte| byte == b'_').count();
        // `malloc` before `__libc_malloc`; the name itself only to give the same answer each time.
        let order = |s: &Symbol| (s.address, Reverse(s.size.min(1)), s.rank, underscores(name(s)));
        symbols.sort_unstable_by(|a, b| order(a).cmp(&order(b)).then_with(|| name(a).cmp(name(b))));
        symbols.dedup_by_key(|symbol| symbol.address);
        symbols.shrink_to_fit();
        Self { symbols, names }
    }

    /// Whether there is no function at all.
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function at `address`: the last one that begins before it, if it reaches so far. One
    /// without a size (assembly) reaches to the next.
    pub fn name(&self, address: u64) -> Option<&[u8]> {
        self.place(address).map(|(name, _)| name)
    }

    /// The same, and how far behind its beginning that is.
    pub fn place(&self, address: u64) -> Option<(&[u8], u64)> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        let offset = address - symbol.address;
        let reaches = symbol.size == 0 || offset < symbol.size;
        name_at(&self.names, symbol.name).filter(|_| reaches).map(|name| (name, offset))
    }
}

fn rank_of_code(kind: SymbolType) -> Option<u8> {
    match kind {
        STT_FUNC | STT_GNU_IFUNC => Some(0),
        STT_NOTYPE => Some(3),
        _ => None,
    }
}

fn rank_of_data(kind: SymbolType) -> Option<u8> {
    (kind == STT_OBJECT).then_some(0)
}

fn rank_of_binding(binding: object::elf::SymbolBind) -> u8 {
    match binding {
        STB_GLOBAL => 0,
        STB_WEAK => 1,
        _ => 2,
    }
}

/// The name at `offset`, without a version (`memcpy@@GLIBC_2.14`).
fn name_at(names: &[u8], offset: usize) -> Option<&[u8]> {
    let rest = names.get(offset..)?;
    let rest = rest.get(..NAME_LIMIT).unwrap_or(rest);
    let end = rest.iter().position(|&byte| byte == 0 || byte == b'@').unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(symbols: &[(u64, u64, u8, &str)]) -> SymbolTable {
        let mut names = vec![0];
        let symbols = symbols.iter().map(|&(address, size, rank, name)| {
            let at = names.len();
            names.extend_from_slice(name.as_bytes());
            names.push(0);
            Symbol { address, size, name: at, rank }
        });
        SymbolTable::new(symbols.collect(), names)
    }

    fn at(table: &SymbolTable, address: u64) -> Option<&str> {
        table.name(address).map(|name| str::from_utf8(name).unwrap())
    }

    #[test]
    fn a_function_ends_where_its_size_says() {
        let table = table(&[(0x20, 0x10, 0, "b"), (0x10, 8, 0, "a"), (0x30, 0, 3, "_start")]);
        let found = [0xf, 0x10, 0x17, 0x18, 0x2f, 0x30, 0x1000].map(|address| at(&table, address));
        let start = Some("_start");
        assert_eq!(found, [None, Some("a"), Some("a"), None, Some("b"), start, start]);
    }

    #[test]
    fn of_several_names_the_one_users_know_is_told() {
        let table = table(&[
            (0x10, 8, 0, "__libc_malloc"),
            (0x10, 8, 0, "malloc@@GLIBC_2.2.5"),
            (0x10, 0, 0, "aaa"),
            (0x10, 8, 2, "local"),
        ]);
        assert_eq!(at(&table, 0x12), Some("malloc"));
    }
}
