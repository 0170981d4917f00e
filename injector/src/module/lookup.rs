//! Where a symbol lies, by its name, in a module that is loaded.

use goblin::elf::dynamic::{DT_STRSZ, DT_STRTAB, DT_SYMTAB};
use nix::errno::Errno;

use crate::module::{
    symbol_hash::SymbolHash,
    tables::{Budget, SYMBOL_SIZE, Tables, name_at},
};
use heapattach_process::{
    addr::{ImageAddr, RemoteAddr},
    linker::{Link, dynamic_entries},
    little_endian::{u32_at, u64_at},
    memory::Memory,
};

/// Where the symbol `name` of `link` lies, if it has it.
///
/// # Errors
/// As [`Module::read`](super::Module::read).
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
