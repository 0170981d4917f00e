//! What a symbol table names: functions, for modules without DWARF, or variables.

use std::{
    cmp::{Ordering, Reverse},
    fs::File,
};

use object::{
    Endianness, SectionIndex,
    elf::{
        SHF_ALLOC, SHF_EXECINSTR, SHT_DYNSYM, SHT_SYMTAB, STB_GLOBAL, STB_WEAK, STT_FUNC,
        STT_GNU_IFUNC, STT_NOTYPE, STT_OBJECT, SymbolType,
    },
    read::{
        ReadCache,
        elf::{SectionHeader, Sym},
    },
};

use crate::files::elf::{Allowance, Elf, Source};

/// The largest programs have a few million.
const SYMBOLS_LIMIT: usize = 1 << 24;
/// Longer names are cut.
const NAME_LIMIT: usize = 64 << 10;

/// Names are read one by one of so many symbols at most; beyond, all at once is less work.
const NEAR_LIMIT: usize = 4096;

type RawTable<'a> =
    object::read::elf::SymbolTable<'a, object::elf::FileHeader64<Endianness>, &'a ReadCache<File>>;

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

    /// The same, but only what names one of `addresses`, which are sorted: those a program has called
    /// are few, and to sort a hundred thousand symbols for them takes longer than the rest of a short
    /// session. The table is empty only where the whole one would be.
    pub fn read_near(
        source: &Source,
        elf: &Elf<'_>,
        table: Table,
        addresses: &[u64],
        allowance: &Allowance,
    ) -> Self {
        Self::try_read_near(source, elf, table, addresses, allowance)
            .unwrap_or_else(|| Self::read(source, elf, table, Named::Code, allowance))
    }

    /// `None` where it is not certain that the whole table would give the same answers.
    fn try_read_near(
        source: &Source,
        elf: &Elf<'_>,
        table: Table,
        addresses: &[u64],
        allowance: &Allowance,
    ) -> Option<Self> {
        let raw = Raw::of(elf, table)?;
        let mut nearest = Nearest::to(addresses);
        raw.symbols(elf, Named::Code).for_each(|symbol| nearest.take(symbol));
        let (mut symbols, mut names) = (nearest.symbols(), Vec::new());
        if symbols.is_empty() || symbols.len() > NEAR_LIMIT {
            return None;
        }
        for symbol in &mut symbols {
            let name = source.string(elf, raw.strings, symbol.name, NAME_LIMIT)?;
            allowance.take(name.len() as u64)?;
            symbol.name = names.len();
            names.extend(name);
            names.push(0);
            // Where the whole table would leave it out, another one is the nearest.
            name_at(&names, symbol.name).filter(|name| is_name(name))?;
        }
        Some(Self::new(symbols, names))
    }

    fn try_read(
        source: &Source,
        elf: &Elf<'_>,
        table: Table,
        named: Named,
        allowance: &Allowance,
    ) -> Option<Self> {
        let raw = Raw::of(elf, table)?;
        let names = source.numbered(elf, raw.strings, allowance)?;
        let is_named = |symbol: &Symbol| name_at(&names, symbol.name).is_some_and(is_name);
        let symbols = raw.symbols(elf, named).filter(is_named).collect();
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
        let order = |s: &Symbol| (Reverse(s.size.min(1)), s.rank, underscores(name(s)));
        // Names are looked at only where two share an address: elsewhere that would take most of the
        // time of a short session.
        symbols.sort_unstable_by(|a, b| {
            let by_address = a.address.cmp(&b.address);
            by_address.then_with(|| order(a).cmp(&order(b))).then_with(|| name(a).cmp(name(b)))
        });
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

/// A table as it stands in the file.
struct Raw<'a> {
    table: &'a RawTable<'a>,
    /// The section of the names.
    strings: SectionIndex,
}

impl<'a> Raw<'a> {
    /// `None` if the file has none.
    fn of(elf: &'a Elf<'_>, table: Table) -> Option<Self> {
        let (table, kind) = match table {
            Table::Full => (elf.elf_symbol_table(), SHT_SYMTAB),
            Table::Dynamic => (elf.elf_dynamic_symbol_table(), SHT_DYNSYM),
        };
        if table.is_empty() {
            return None;
        }
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        let own = sections.section(table.section()).ok().filter(|s| s.sh_type(endian) == kind)?;
        Some(Self { table, strings: own.link(endian) })
    }

    /// The functions, or variables, with any names.
    fn symbols(&self, elf: &Elf<'_>, named: Named) -> impl Iterator<Item = Symbol> {
        let (endian, sections) = (elf.endian(), elf.elf_section_table());
        self.table.enumerate().take(SYMBOLS_LIMIT).filter_map(move |(index, symbol)| {
            let section = self.table.symbol_section(endian, symbol, index).ok().flatten();
            let header = section.and_then(|section| sections.section(section).ok());
            let has = |flag| header.is_some_and(|h| h.sh_flags(endian).contains(flag));
            let (kind, binding) = (symbol.st_type(), symbol.st_bind());
            let rank = match named {
                Named::Code if has(SHF_EXECINSTR) => rank_of_code(kind),
                Named::Data if has(SHF_ALLOC) && !has(SHF_EXECINSTR) => rank_of_data(kind),
                _ => None,
            };
            let rank = rank? + rank_of_binding(binding);
            let name = usize::try_from(symbol.st_name(endian)).ok()?;
            let (address, size) = (symbol.st_value(endian), symbol.st_size(endian));
            Some(Symbol { address, size, name, rank })
        })
    }
}

/// Of all symbols that come by, those that begin last before some address: several where they begin
/// at one place.
struct Nearest<'a> {
    addresses: &'a [u64],
    /// Those between an address and the one before it.
    found: Vec<Vec<Symbol>>,
}

impl<'a> Nearest<'a> {
    fn to(addresses: &'a [u64]) -> Self {
        Self { addresses, found: addresses.iter().map(|_| Vec::new()).collect() }
    }

    fn take(&mut self, symbol: Symbol) {
        let next = self.addresses.partition_point(|&address| address < symbol.address);
        let Some(found) = self.found.get_mut(next) else { return };
        match found.last().map(|last| last.address.cmp(&symbol.address)) {
            Some(Ordering::Greater) => return,
            Some(Ordering::Less) => found.clear(),
            Some(Ordering::Equal) | None => {}
        }
        found.push(symbol);
    }

    fn symbols(self) -> Vec<Symbol> {
        self.found.into_iter().flatten().collect()
    }
}

/// `$x` and its like mark kinds of code on Arm.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name[0] != b'$'
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

    /// Of this very program.
    fn own(addresses: &[u64], allowance: &Allowance) -> SymbolTable {
        let source = Source::new(File::open(std::env::current_exe().unwrap()).unwrap()).unwrap();
        let elf = source.elf().unwrap();
        match addresses {
            [] => SymbolTable::read(&source, &elf, Table::Full, Named::Code, allowance),
            _ => SymbolTable::read_near(&source, &elf, Table::Full, addresses, allowance),
        }
    }

    #[test]
    fn names_of_a_few_addresses_are_those_that_the_whole_table_gives() {
        let allowance = Allowance::default();
        let whole = own(&[], &allowance);
        let last = whole.symbols.last().unwrap().address;
        let mut addresses: Vec<u64> = whole.symbols.iter().step_by(97).map(|s| s.address).collect();
        addresses.extend((0..200).map(|n| last / 200 * n));
        addresses.extend([0, 1, last + 1, u64::MAX]);
        addresses.sort_unstable();
        addresses.dedup();
        let near = own(&addresses, &allowance);
        assert!(near.symbols.len() < whole.symbols.len() / 10, "{}", near.symbols.len());
        for address in addresses {
            assert_eq!(near.place(address), whole.place(address), "at {address:#x}");
        }
    }

    /// A test program has megabytes of names.
    #[test]
    fn for_a_few_addresses_only_their_names_are_read() {
        let some = own(&[], &Allowance::default()).symbols[1000].address;
        let allowance = Allowance::of(2 * NAME_LIMIT as u64);
        assert!(own(&[some], &allowance).name(some).is_some());
        assert!(own(&[], &allowance).is_empty(), "all names take more than that");
    }

    proptest::proptest! {
        #[test]
        fn the_nearest_symbols_answer_as_all_do(
            symbols in proptest::collection::vec((0_u64..40, 0_u64..9, 0_u8..6), 1..60),
            addresses in proptest::collection::btree_set(0_u64..50, 1..9),
        ) {
            let names: Vec<String> = (0..symbols.len()).map(|n| format!("{}f{n}", "_".repeat(n % 3))).collect();
            let symbols = symbols.iter().zip(&names).map(|(s, name)| (s.0, s.1, s.2, name.as_str()));
            let symbols: Vec<_> = symbols.collect();
            let addresses: Vec<u64> = addresses.into_iter().collect();
            let mut nearest = Nearest::to(&addresses);
            for (number, s) in symbols.iter().enumerate() {
                nearest.take(Symbol { address: s.0, size: s.1, rank: s.2, name: number });
            }
            let near: Vec<_> = nearest.symbols().iter().map(|s| symbols[s.name]).collect();
            let (near, whole) = (table(&near), table(&symbols));
            for address in addresses {
                proptest::prop_assert_eq!(at(&near, address), at(&whole, address));
            }
        }
    }
}
