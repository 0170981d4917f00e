//! The full symbol table of a module: of its file, of what is packed into that for stripped ones, or
//! of the file its debug information was put into. Never of another build.

use std::{fs::File, io::Read, io::Write, path::Path};

use goblin::elf::section_header::SHT_SYMTAB;
use lzma_rust2::XzReader;
use nix::sys::memfd::{MFdFlags, memfd_create};

use crate::module::{
    known_symbols::KnownSymbols,
    tables::{Budget, SYMBOL_SIZE},
};
use heapattach_process::cache::Cache;
use heapattach_process::{
    addr::ImageAddr,
    little_endian::{u32_at, u64_at},
    memory::Memory,
    proc::{
        Process,
        build_id::BuildId,
        file::{open_build, open_in_root},
        maps::Mapping,
        sections::Sections,
    },
};

const STT_NOTYPE: u8 = goblin::elf::sym::STT_NOTYPE;
const STT_FUNC: u8 = goblin::elf::sym::STT_FUNC;
const STT_GNU_IFUNC: u8 = goblin::elf::sym::STT_GNU_IFUNC;
/// Mangled names are long; longer ones no user would type.
const NAME_LIMIT: usize = 4096;
/// What unpacking may take.
const UNPACK_MEMORY_KIB: u32 = 128 << 10;
const PIECE: usize = 64 << 10;

/// A symbol table.
#[derive(Debug)]
pub struct SymbolFile {
    symbols: Vec<u8>,
    strings: Vec<u8>,
}

/// One function of it.
#[derive(Clone, Copy, Debug)]
pub struct Symbol<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Where it begins.
    pub at: ImageAddr,
    /// How long it is, or 0.
    pub size: u64,
    /// Chosen at run time.
    pub indirect: bool,
}

impl SymbolFile {
    /// The symbols of the module that `mapping` is the first part of. Where its own file has none, they
    /// are looked for elsewhere if `far` is set.
    pub fn find(
        process: &Process,
        memory: &Memory,
        mapping: &Mapping<'_>,
        far: bool,
        budget: &mut Budget,
    ) -> Option<Self> {
        let size = mapping.range.end.offset_from(mapping.range.start)?;
        let build = BuildId::at(memory.file(), mapping.range.start.get(), size);
        let file = open_build(process, mapping, build.as_ref()).ok()?;
        let own = Self::read(&file, budget);
        if own.is_some() || !far {
            return own;
        }
        let debug = || build.as_ref().and_then(|build| debug_file(process, build));
        let apart = debug().and_then(|file| Self::read(&file, budget));
        apart.or_else(|| Self::read(&unpacked(&file, budget)?, budget))
    }

    /// As [`Self::find`], but only functions we know, most of them from the cache.
    pub(crate) fn known(
        process: &Process,
        memory: &Memory,
        mapping: &Mapping<'_>,
        far: bool,
        (cache, budget): (Option<&Cache>, &mut Budget),
    ) -> Option<KnownSymbols> {
        let size = mapping.range.end.offset_from(mapping.range.start)?;
        let build = BuildId::at(memory.file(), mapping.range.start.get(), size);
        let file = open_build(process, mapping, build.as_ref()).ok()?;
        let own = KnownSymbols::of(&file, b"own", cache, || Self::read(&file, budget));
        if own.is_some() || !far {
            return own;
        }
        let apart = build.as_ref().and_then(|build| debug_file(process, build));
        let apart = apart.and_then(|apart| {
            KnownSymbols::of(&apart, b"own", cache, || Self::read(&apart, budget))
        });
        let packed = || Self::read(&unpacked(&file, budget)?, budget);
        apart.or_else(|| KnownSymbols::of(&file, b"packed", cache, packed))
    }

    pub(crate) fn read(file: &File, budget: &mut Budget) -> Option<Self> {
        let sections = Sections::read(file)?;
        let table = sections.of_kind(SHT_SYMTAB)?;
        let strings = sections.number(table.link)?;
        let symbols = sections.bytes(table, |bytes| budget.spend(bytes))?;
        let strings = sections.bytes(strings, |bytes| budget.spend(bytes))?;
        Some(Self { symbols, strings })
    }

    /// Every function.
    pub fn functions(&self) -> impl Iterator<Item = Symbol<'_>> {
        self.symbols.chunks_exact(SYMBOL_SIZE).filter_map(|symbol| {
            let kind = symbol[4] & 0xf;
            let section = u16::from_le_bytes([symbol[6], symbol[7]]);
            let is_function = matches!(kind, STT_NOTYPE | STT_FUNC | STT_GNU_IFUNC);
            if !is_function || section == 0 {
                return None;
            }
            let name = self.strings.get(usize::try_from(u32_at(symbol, 0)?).ok()?..)?;
            let name = &name[..name.len().min(NAME_LIMIT)];
            let name = &name[..name.iter().position(|&byte| byte == 0)?];
            let at = ImageAddr::new(u64_at(symbol, 8).filter(|&at| at != 0)?);
            let size = u64_at(symbol, 16)?;
            Some(Symbol { name, at, size, indirect: kind == STT_GNU_IFUNC })
        })
    }
}

/// Where distributions put what they strip: looked for with the program, then here.
fn debug_file(process: &Process, build: &BuildId) -> Option<File> {
    let (folder, name) = build.split();
    let path = format!("/usr/lib/debug/.build-id/{folder}/{name}.debug");
    let path = Path::new(&path);
    let own = || File::open(path).ok().filter(|file| file.metadata().is_ok_and(|m| m.is_file()));
    let file = open_in_root(process, path).ok().or_else(own)?;
    (BuildId::of_file(&file).as_ref() == Some(build)).then_some(file)
}

/// The symbol table that Fedora and its kin leave in stripped files, as a file without a name.
fn unpacked(file: &File, budget: &mut Budget) -> Option<File> {
    let sections = Sections::read(file)?;
    let packed = sections.named(b".gnu_debugdata")?;
    let packed = sections.bytes(packed, |bytes| budget.spend(bytes))?;
    let mut plain = File::from(memfd_create("symbols", MFdFlags::MFD_CLOEXEC).ok()?);
    let mut reader = XzReader::new_mem_limit(&packed[..], false, UNPACK_MEMORY_KIB);
    let mut piece = vec![0; PIECE];
    loop {
        let length = reader.read(&mut piece).ok()?;
        if length == 0 {
            return Some(plain);
        }
        // A few bytes can unpack to gigabytes.
        budget.spend(length as u64)?;
        plain.write_all(piece.get(..length)?).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::FileExt, sync::LazyLock};

    use proptest::prelude::*;

    use super::*;

    /// The first part of this very program.
    static OWN: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut bytes = Vec::new();
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        file.take(1 << 20).read_to_end(&mut bytes).unwrap();
        bytes
    });

    fn file_of(bytes: &[u8]) -> File {
        let mut file = File::from(memfd_create("test", MFdFlags::MFD_CLOEXEC).unwrap());
        file.write_all(bytes).unwrap();
        file
    }

    fn read(file: &File) -> Option<usize> {
        let mut budget = Budget::default();
        Some(SymbolFile::read(file, &mut budget)?.functions().count())
    }

    #[test]
    fn the_functions_of_this_very_program_are_found() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let mut budget = Budget::default();
        let symbols = SymbolFile::read(&file, &mut budget).expect("tests are not stripped");
        let main = symbols.functions().find(|symbol| symbol.name == b"main").unwrap();
        assert!(main.at.get() != 0 && main.size > 0 && !main.indirect);
    }

    #[test]
    fn what_is_no_elf_file_has_no_symbols() {
        assert_eq!(read(&file_of(b"#!/bin/sh\n")), None);
        assert_eq!(read(&file_of(b"")), None);
        assert!(unpacked(&file_of(b"\x7fELF\x02\x01"), &mut Budget::default()).is_none());
    }

    proptest! {
        /// The first kilobytes of a real file, and its tables of sections, with lies in them.
        #[test]
        fn no_lie_in_a_header_is_believed(
            lies in prop::collection::vec((0_u64..64, any::<u64>()), 0..4),
            sections in prop::collection::vec((0_u64..(40 * 8), any::<u64>()), 0..16),
        ) {
            let own = &*OWN;
            let file = file_of(&own[..own.len().min(1 << 16)]);
            let table = u64_at(own, 40).unwrap().min(1 << 16);
            let last = own.len().min(1 << 16) as u64;
            file.write_all_at(&(last - 4096).to_le_bytes(), 40).unwrap();
            file.write_all_at(&own[usize::try_from(table).unwrap().min(own.len() - 4096)..][..4096],
                last - 4096).unwrap();
            for (at, lie) in lies {
                file.write_all_at(&lie.to_le_bytes(), at).unwrap();
            }
            for (word, lie) in sections {
                file.write_all_at(&lie.to_le_bytes(), last - 4096 + word * 8).unwrap();
            }
            let _ = read(&file);
            let _ = unpacked(&file, &mut Budget::default());
        }
    }
}
