//! Symbols of a module by their names, through the table that the loader itself looks them up in
//! (`DT_GNU_HASH`): of a hundred thousand symbols a survey wants a few, and to read and compare all
//! takes longer than the rest of it.
//!
//! The table is the target's: each length and each chain in it is bounded. What is not in it (a
//! module's imports) stands before all that is.

use goblin::elf::dynamic::{DT_GNU_HASH, DT_SYMTAB};

use crate::module::tables::{SYMBOL_SIZE, Tables};
use heapattach_process::little_endian::u32_at;

/// Buckets, the first symbol, words of the filter, its shift.
const HEADER: usize = 16;
const HEADER_END: u64 = HEADER as u64;
/// No honest chain is longer: linkers make about as many buckets as there are symbols.
const CHAIN: u64 = 1 << 12;

/// A symbol as it stands in the table, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) symbol: [u8; SYMBOL_SIZE],
}

/// The shape of a module's table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolHash {
    buckets: u64,
    first: u64,
    filter: u64,
    shift: u32,
}

impl SymbolHash {
    /// `None` if the module has no such table, or one that makes no sense.
    pub(crate) fn of(tables: &mut Tables<'_>) -> Option<Self> {
        let header: [u8; HEADER] = tables.piece(DT_GNU_HASH, 0)?;
        let field = |at| u32_at(&header, at);
        let (buckets, first) = (u64::from(field(0)?), u64::from(field(4)?));
        let (filter, shift) = (u64::from(field(8)?), field(12)?);
        let makes_sense = buckets > 0 && filter.is_power_of_two();
        makes_sense.then_some(Self { buckets, first, filter, shift })
    }

    /// How many symbols stand before those of the table; `used` are known to be there.
    pub(crate) fn others(&self, tables: &mut Tables<'_>, used: u64) -> u64 {
        // Where it has no symbol at all some linkers do not say where it would begin.
        let is_empty = self.buckets == 1 && self.bucket(tables, 0).is_none_or(|first| first == 0);
        if is_empty { self.first.max(used) } else { self.first }
    }

    /// All symbols of this name: a library may have several versions of one.
    pub(crate) fn find(&self, tables: &mut Tables<'_>, name: &[u8]) -> Vec<Numbered> {
        let mut found = Vec::new();
        let _ = self.walk(tables, name, &mut found);
        found
    }

    fn walk(&self, tables: &mut Tables<'_>, name: &[u8], found: &mut Vec<Numbered>) -> Option<()> {
        let hash = hash_of(name);
        let word = HEADER_END + (u64::from(hash / 64) & (self.filter - 1)) * 8;
        let word = u64::from_le_bytes(tables.piece(DT_GNU_HASH, word)?);
        let bit = |hash: u32| word >> (hash & 63) & 1 != 0;
        if !bit(hash) || !bit(hash.checked_shr(self.shift).unwrap_or(0)) {
            return None;
        }
        let begin = self.bucket(tables, u64::from(hash) % self.buckets)?;
        let chains = HEADER_END + self.filter * 8 + self.buckets * 4;
        for number in begin..begin.saturating_add(CHAIN) {
            let at = chains + number.checked_sub(self.first)? * 4;
            let link = u32::from_le_bytes(tables.piece(DT_GNU_HASH, at)?);
            if link | 1 == hash | 1 {
                let symbol: [u8; SYMBOL_SIZE] =
                    tables.piece(DT_SYMTAB, number * SYMBOL_SIZE as u64)?;
                if tables.name(u32_at(&symbol, 0)?).as_deref() == Some(name) {
                    found.push(Numbered { number: u32::try_from(number).ok()?, symbol });
                }
            }
            if link & 1 != 0 {
                return Some(());
            }
        }
        None
    }

    fn bucket(&self, tables: &mut Tables<'_>, number: u64) -> Option<u64> {
        let at = HEADER_END + self.filter * 8 + number * 4;
        Some(u32::from_le_bytes(tables.piece(DT_GNU_HASH, at)?).into())
    }
}

/// As glibc has it.
fn hash_of(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hash_as_loaders_hash_them() {
        assert_eq!(hash_of(b""), 5381);
        assert_eq!(hash_of(b"printf"), 0x156b_2bb8);
        assert_eq!(hash_of(b"syscall"), 0xbac2_12a0);
    }
}
