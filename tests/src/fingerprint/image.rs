//! What an ELF file says about the words its relocations fill.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use object::{
    Endianness,
    elf::{
        FileHeader64, PT_LOAD, R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT, SHT_DYNSYM,
        STT_GNU_IFUNC,
    },
    read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, Sym},
};

/// A relocation that puts the address of a symbol into a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A call through the PLT; may be filled at the first call.
    JumpSlot,
    /// An address taken through the GOT.
    GlobDat,
    /// A pointer in data.
    Pointer,
}

/// A word to be filled.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where, as the file states addresses.
    pub(super) address: u64,
    pub(super) kind: Kind,
    pub(super) symbol: String,
}

/// A definition of a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Definition {
    pub(super) address: u64,
    /// The address is that of a function which chooses the real one.
    pub(super) is_indirect: bool,
}

/// A loadable part of the file.
#[derive(Clone, Copy, Debug)]
struct Part {
    offset: u64,
    size: u64,
    address: u64,
}

/// One ELF file.
#[derive(Debug, Default)]
pub(super) struct Image {
    parts: Vec<Part>,
    pub(super) places: Vec<Place>,
    pub(super) definitions: HashMap<String, Vec<Definition>>,
}

impl Image {
    /// Reads a file, or finds it read: the same libraries come up in every fingerprint.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Self>> {
        type Identity = (u64, u64, u64, i64, i64);
        static SEEN: LazyLock<Mutex<HashMap<Identity, Arc<Image>>>> = LazyLock::new(Mutex::default);
        let about = fs::metadata(path)?;
        let when = (about.ctime(), about.ctime_nsec());
        let identity = (about.dev(), about.ino(), about.len(), when.0, when.1);
        let seen = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(image) = seen().get(&identity) {
            return Ok(image.clone());
        }
        let mut data = Vec::new();
        File::open(path)?.read_to_end(&mut data)?;
        let image = Arc::new(Self::parse(&data).map_err(io::Error::other)?);
        seen().insert(identity, image.clone());
        Ok(image)
    }

    /// Where a file offset is, as the file states addresses.
    pub(super) fn address_of(&self, offset: u64) -> Option<u64> {
        // A mapping starts at a page border, a part need not.
        let begins = |part: &Part| part.offset & !0xfff;
        let holds = |part: &&Part| (begins(part)..part.offset + part.size).contains(&offset);
        let part = self.parts.iter().find(holds)?;
        Some(offset.wrapping_sub(part.offset).wrapping_add(part.address))
    }

    fn parse(data: &[u8]) -> object::read::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        let mut image = Self::default();
        for part in header.program_headers(endian, data)? {
            if part.p_type(endian) == PT_LOAD {
                let (offset, size) = (part.p_offset(endian), part.p_filesz(endian));
                image.parts.push(Part { offset, size, address: part.p_vaddr(endian) });
            }
        }
        let sections = header.sections(endian, data)?;
        let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
        for symbol in symbols.iter().filter(|s| !s.is_undefined(endian)) {
            let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol)?).into_owned();
            let is_indirect = symbol.st_type() == STT_GNU_IFUNC;
            let definition = Definition { address: symbol.st_value(endian), is_indirect };
            image.definitions.entry(name).or_default().push(definition);
        }
        for section in sections.iter() {
            let Some((list, table)) = section.rela(endian, data)? else { continue };
            if table != symbols.section() {
                continue;
            }
            for rela in list {
                let kind = match rela.r_type(endian, false) {
                    R_X86_64_JUMP_SLOT => Kind::JumpSlot,
                    R_X86_64_GLOB_DAT => Kind::GlobDat,
                    R_X86_64_64 => Kind::Pointer,
                    _ => continue,
                };
                let Some(index) = rela.symbol(endian, false) else { continue };
                let name = symbols.symbol_name(endian, symbols.symbol(index)?)?;
                let symbol = String::from_utf8_lossy(name).into_owned();
                image.places.push(Place { address: rela.r_offset(endian), kind, symbol });
            }
        }
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_words_of_the_c_library_itself() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("linked to libc");
        let path = &line[line.find('/').unwrap()..];
        let image = Image::open(Path::new(path)).unwrap();
        for name in ["malloc", "free", "calloc", "realloc"] {
            assert!(image.places.iter().any(|p| p.symbol == name), "no word for {name}");
            assert!(image.definitions.contains_key(name), "no definition of {name}");
        }
        assert_eq!(image.address_of(0), Some(0));
    }
}
