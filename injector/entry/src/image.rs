//! An ELF file as the loader would lay it out: bytes by the address the file states.

use object::{
    LittleEndian, elf,
    read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable},
};

type File = elf::FileHeader64<LittleEndian>;

const LE: LittleEndian = LittleEndian;

/// Bytes that are no module we can analyse.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Not an ELF file for x86-64, or a broken one.
    #[error("not a 64-bit little-endian x86-64 ELF file")]
    NotElf,
    /// The file says that it has no code.
    #[error("the file has no executable segment")]
    NoCode,
}

/// A module's file, with the little of it that the analysis needs.
pub(super) struct Image<'f> {
    machine: &'static Machine,
    file: &'f [u8],
    segments: Vec<Segment<'f>>,
    sections: SectionTable<'f, File>,
    unwind_index: Option<u64>,
}

/// One loaded segment, as far as the file fills it.
#[derive(Clone, Copy)]
pub(super) struct Segment<'f> {
    pub at: u64,
    pub bytes: &'f [u8],
    pub executable: bool,
}

/// A function as a symbol table states it. `size` may be 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    pub at: u64,
    pub size: u64,
}

/// A word of the image that the loader sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relocation {
    pub word: u64,
    /// Where the word will lead, if that is in this image: the addend, or the symbol's definition.
    pub leads_to: u64,
    /// Whether the word belongs to the GOT, where another module's definition may win.
    pub by_name: bool,
}

/// What files for a processor say of it, in numbers of ELF.
pub(super) struct Machine {
    /// The processor.
    pub number: elf::Machine,
    /// Relocations to an address of the same image.
    pub relative: [elf::RelocationType; 2],
    /// Relocations of the GOT to a symbol.
    pub by_name: [elf::RelocationType; 2],
    /// Relocations of any other word to a symbol.
    pub absolute: elf::RelocationType,
}

impl<'f> Image<'f> {
    pub(super) fn parse(file: &'f [u8], machine: &'static Machine) -> Result<Self, ImageError> {
        let header = File::parse(file).map_err(|_| ImageError::NotElf)?;
        if header.e_machine.get(LE) != machine.number || !header.is_little_endian() {
            return Err(ImageError::NotElf);
        }
        let headers = header.program_headers(LE, file).map_err(|_| ImageError::NotElf)?;
        // A missing or broken section table is no obstacle: the loader does not read it either.
        let sections = header.sections(LE, file).unwrap_or_default();
        let segments = segments(headers, file)?;
        let unwind_index = headers.iter().find(|h| h.p_type(LE) == elf::PT_GNU_EH_FRAME);
        let unwind_index = unwind_index.map(|h| h.p_vaddr(LE));
        Ok(Self { file, machine, segments, sections, unwind_index })
    }

    /// The executable segments, by ascending address.
    pub(super) fn code(&self) -> impl Iterator<Item = Segment<'f>> {
        self.segments.iter().copied().filter(|segment| segment.executable)
    }

    /// The bytes from `at` to the end of its segment.
    pub(super) fn bytes_from(&self, at: u64) -> Option<&'f [u8]> {
        self.segment_of(at).and_then(|segment| segment.from(at))
    }

    /// The same, if the loader maps them executable.
    pub(super) fn code_from(&self, at: u64) -> Option<&'f [u8]> {
        self.segment_of(at).filter(|segment| segment.executable).and_then(|s| s.from(at))
    }

    /// The functions that other modules can name, or those of the full symbol table if `all`.
    pub(super) fn functions(&self, all: bool) -> Vec<Symbol> {
        let table = if all { elf::SHT_SYMTAB } else { elf::SHT_DYNSYM };
        let function = |symbol: &&elf::Sym64<LittleEndian>| {
            let kind = symbol.st_type();
            (kind == elf::STT_FUNC || kind == elf::STT_GNU_IFUNC) && !symbol.is_undefined(LE)
        };
        let read =
            |symbol: &elf::Sym64<_>| Symbol { at: symbol.st_value(LE), size: symbol.st_size(LE) };
        self.symbols(table).symbols().iter().filter(function).map(read).collect()
    }

    /// Where the file states its table of unwind entries sorted by address.
    pub(super) fn unwind_index(&self) -> Option<u64> {
        self.unwind_index
    }

    /// The unwind entries, and where the file states them, as its sections have them: static programs
    /// have no table by which to find them.
    pub(super) fn unwind_entries(&self) -> Option<(u64, &'f [u8])> {
        let (_, section) = self.sections.section_by_name(LE, b".eh_frame")?;
        Some((section.sh_addr(LE), section.data(LE, self.file).ok()?))
    }

    /// Hands every relocation that leads into this image to `visit`.
    pub(super) fn relocations(&self, mut visit: impl FnMut(Relocation)) {
        // Sections of a hostile file may share their bytes; no honest file has more rows than fit.
        let mut left = self.file.len() / size_of::<elf::Rela64<LittleEndian>>();
        let symbols = self.symbols(elf::SHT_DYNSYM);
        for section in self.sections.iter() {
            let Ok(Some((rows, _))) = section.rela(LE, self.file) else { continue };
            let rows = &rows[..rows.len().min(left)];
            left -= rows.len();
            let read = |row| relocation(row, symbols.symbols(), self.machine);
            rows.iter().filter_map(read).for_each(&mut visit);
        }
    }

    fn symbols(&self, table: elf::SectionType) -> SymbolTable<'f, File> {
        self.sections.symbols(LE, self.file, table).unwrap_or_default()
    }

    fn segment_of(&self, at: u64) -> Option<&Segment<'f>> {
        let next = self.segments.partition_point(|segment| segment.at <= at);
        self.segments.get(next.checked_sub(1)?)
    }
}

impl<'f> Segment<'f> {
    fn from(&self, at: u64) -> Option<&'f [u8]> {
        let offset = usize::try_from(at.checked_sub(self.at)?).ok()?;
        self.bytes.get(offset..).filter(|bytes| !bytes.is_empty())
    }
}

/// The loaded segments, which the ELF specification wants sorted. Together they may not be larger
/// than the file: so all work done for each of their bytes is bounded.
fn segments<'f>(
    headers: &[elf::ProgramHeader64<LittleEndian>],
    file: &'f [u8],
) -> Result<Vec<Segment<'f>>, ImageError> {
    let mut segments = Vec::new();
    let (mut end, mut room) = (0, file.len());
    for header in headers.iter().filter(|header| header.p_type(LE) == elf::PT_LOAD) {
        let bytes = header.data(LE, file).map_err(|()| ImageError::NotElf)?;
        let at = header.p_vaddr(LE);
        room = room.checked_sub(bytes.len()).ok_or(ImageError::NotElf)?;
        if at < end {
            return Err(ImageError::NotElf);
        }
        end = at.checked_add(bytes.len() as u64).ok_or(ImageError::NotElf)?;
        let executable = header.p_flags(LE) & elf::PF_X == elf::PF_X;
        segments.push(Segment { at, bytes, executable });
    }
    if segments.iter().any(|segment| segment.executable) {
        Ok(segments)
    } else {
        Err(ImageError::NoCode)
    }
}

fn relocation(
    row: &elf::Rela64<LittleEndian>,
    symbols: &[elf::Sym64<LittleEndian>],
    machine: &Machine,
) -> Option<Relocation> {
    let word = row.r_offset(LE);
    let kind = row.r_type(LE, false);
    let addend = row.r_addend(LE).cast_unsigned();
    if machine.relative.contains(&kind) {
        return Some(Relocation { word, leads_to: addend, by_name: false });
    }
    let by_name = machine.by_name.contains(&kind);
    if !by_name && kind != machine.absolute {
        return None;
    }
    let symbol = symbols.get(row.symbol(LE, false)?.0).filter(|symbol| !symbol.is_undefined(LE))?;
    Some(Relocation { word, leads_to: symbol.st_value(LE).wrapping_add(addend), by_name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        arch::machine::MACHINE,
        model::{CODE, DATA, Model},
    };

    #[test]
    fn bytes_are_found_by_the_address_the_file_states() {
        let file = Model::default().code(0, &[1, 2, 3]).data(&[4, 5]).build();
        let image = Image::parse(&file, &MACHINE).unwrap();
        assert_eq!(image.code_from(CODE + 1), Some(&[2, 3][..]));
        assert_eq!(image.bytes_from(DATA), Some(&[4, 5][..]));
        assert_eq!(image.code_from(DATA), None, "data is not code");
        assert_eq!((image.bytes_from(CODE - 1), image.bytes_from(CODE + 3)), (None, None));
    }

    #[test]
    fn a_relocation_leads_where_its_addend_or_symbol_says() {
        let model = Model::default().data(&[0; 16]).exports(8, &[0xc3]);
        let file = model.points(DATA, CODE + 5).slot(DATA + 8, 0).build();
        let mut seen = Vec::new();
        Image::parse(&file, &MACHINE).unwrap().relocations(|relocation| seen.push(relocation));
        let plain = Relocation { word: DATA, leads_to: CODE + 5, by_name: false };
        let slot = Relocation { word: DATA + 8, leads_to: CODE + 8, by_name: true };
        assert_eq!(seen, [plain, slot]);
    }

    #[test]
    fn segments_that_share_bytes_are_refused() {
        let mut file = Model::default().code(0, &[0x90; 64]).data(&[0; 64]).build();
        let (first, second) = (64, 64 + 56);
        file.copy_within(first..first + 16, second);
        assert!(
            Image::parse(&file, &MACHINE).is_ok(),
            "the same file bytes twice, but no more than the file"
        );
        file.copy_within(first + 16..first + 24, second + 16);
        assert!(
            matches!(Image::parse(&file, &MACHINE), Err(ImageError::NotElf)),
            "the same addresses twice"
        );
    }
}
