//! What the loader is asked to write into a module.

use crate::module::tables::RELOCATION_SIZE;
use heapattach_process::{addr::ImageAddr, little_endian::u64_at};

/// A word that the loader fills with the address of a symbol.
pub(super) struct Relocation {
    pub at: ImageAddr,
    pub kind: u32,
    pub symbol: u32,
    pub addend: u64,
}

/// The relocations that name a symbol. Nearly all do not, and are not ours.
pub(super) fn relocations_of(bytes: &[u8]) -> impl Iterator<Item = Relocation> {
    bytes.chunks_exact(RELOCATION_SIZE).filter_map(|r| {
        let info = u64_at(r, 8)?;
        let symbol = u32::try_from(info >> 32).ok().filter(|&s| s != 0)?;
        let kind = u32::try_from(info & 0xffff_ffff).ok()?;
        Some(Relocation { at: ImageAddr::new(u64_at(r, 0)?), kind, symbol, addend: u64_at(r, 16)? })
    })
}
