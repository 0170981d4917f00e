//! The payload as it comes out of its build: an ELF file with one section worth having.
//!
//! Checks everything the rest of the injector then relies on: the bytes may be mapped anywhere as
//! they are, and every hook and cell lies inside them. Places nothing and writes nothing.

use std::ops::Range;

use goblin::elf::{Elf, header, section_header};
use heapattach_abi::{
    image::{self, Image},
    kind::{HookKind, MAX_HOOKS},
};

use crate::arch;
use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};

/// The bytes to map into a target, and where in them things are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadImage {
    file: Vec<u8>,
    /// Where the file wants the section to lie.
    address: u64,
    text: Vec<u8>,
    descriptor: Image,
}

/// Why a file is not a payload for this program.
#[derive(Debug, thiserror::Error)]
pub enum PayloadImageError {
    /// Not even an ELF file.
    #[error("the payload is not an ELF file")]
    Elf(#[source] goblin::error::Error),
    /// Built for another machine, or not as a shared object.
    #[error("the payload is not a shared object for {}", arch::MACHINE)]
    Machine,
    /// It could not be mapped as it is.
    #[error("the payload needs {0}, which no module of the target provides")]
    Needs(&'static str),
    /// It would be seen, or was built from something else.
    #[error("the payload exports more than {}", image::SYMBOL)]
    Exports,
    /// The section or its symbol is missing or strange.
    #[error("the payload has no usable {0}")]
    Missing(&'static str),
    /// The descriptor is of something else.
    #[error("the payload's descriptor has a wrong magic number")]
    Magic,
    /// The descriptor is of another contract.
    #[error("the payload speaks version {found} of the contract, not {}", image::VERSION)]
    Version {
        /// What it speaks.
        found: u32,
    },
    /// A field of the descriptor leads outside the section or contradicts the contract.
    #[error("the payload's descriptor has an impossible {0}")]
    Field(&'static str),
}

use PayloadImageError as Error;

impl PayloadImage {
    /// Takes the payload out of its file.
    ///
    /// # Errors
    /// If the file is anything else than a payload of this version for this machine.
    pub fn parse(file: &[u8]) -> Result<Self, PayloadImageError> {
        let elf = Elf::parse(file).map_err(Error::Elf)?;
        if elf.header.e_machine != arch::ELF_MACHINE || elf.header.e_type != header::ET_DYN {
            return Err(Error::Machine);
        }
        needs_nothing(&elf)?;
        let (address, text) = section(&elf, file)?;
        Ok(Self { file: file.to_vec(), address, ..Self::of(text.to_vec())? })
    }

    /// Takes the section alone, as it lies in a target.
    ///
    /// # Errors
    /// If its descriptor is not that of a payload of this version.
    pub fn of(text: Vec<u8>) -> Result<Self, PayloadImageError> {
        let descriptor = Image::read(&text).ok_or(Error::Missing("descriptor"))?;
        check(&descriptor, text.len())?;
        Ok(Self { file: Vec::new(), address: 0, text, descriptor })
    }

    /// The whole file, which is an ordinary shared object; empty if only the section is known.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Where the section lies in a shared object loaded with this bias.
    pub fn text_in(&self, bias: Bias) -> RemoteAddr {
        bias.place(ImageAddr::new(self.address))
    }

    /// Descriptor, hooks and cells, without the slow paths.
    pub fn hooks_and_cells(&self) -> &[u8] {
        self.text.get(..field(self.descriptor.text_len)).unwrap_or_default()
    }

    /// The bytes to map, readable and executable, at the start of a page.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Where in the text a hook begins; `None` if there is no such hook.
    pub fn hook_offset(&self, hook: usize) -> Option<usize> {
        let at = |hook| field(self.descriptor.hooks) + hook * field(self.descriptor.hook_stride);
        (hook < MAX_HOOKS).then(|| at(hook))
    }

    /// Where in the text the brief hook begins that stands beside a hook ([`Image::brief`]), or the hook
    /// itself if it has none; `None` if there is no such hook.
    pub fn brief_offset(&self, hook: usize) -> Option<usize> {
        let is_brief = HookKind::of_hook(hook).is_some_and(HookKind::has_brief);
        Some(self.hook_offset(hook)? + if is_brief { field(self.descriptor.brief) } else { 0 })
    }

    /// The hooks that take their bytes from where `kind` says.
    pub fn hooks_of(&self, kind: HookKind) -> Range<usize> {
        let hooks = self.descriptor.kinds[kind as usize];
        field(hooks.first)..field(hooks.first) + field(hooks.count)
    }

    /// Where in the text to write the address of the control page.
    pub fn control_cell(&self) -> usize {
        field(self.descriptor.control_cell)
    }

    /// Where in the text to write the address of the index of threads.
    pub fn index_cell(&self) -> usize {
        field(self.descriptor.index_cell)
    }

    /// Where in the text to write the address of the filter of samples.
    pub fn filter_cell(&self) -> usize {
        field(self.descriptor.filter_cell)
    }

    /// Where in the text to write the address at which a hook goes on; `None` if there is no such
    /// hook.
    pub fn orig_cell(&self, hook: usize) -> Option<usize> {
        (hook < MAX_HOOKS).then(|| field(self.descriptor.orig_cells) + hook * image::CELL_BYTES)
    }

    /// Where in the text to write what a hook needs besides ([`Image::second_cells`]); `None` if there
    /// is no such hook.
    pub fn second_cell(&self, hook: usize) -> Option<usize> {
        (hook < MAX_HOOKS).then(|| field(self.descriptor.second_cells) + hook * image::CELL_BYTES)
    }

    /// Where in the text to write what tells how large a block of the hook's is, and whether it is its
    /// allocator's ([`Image::size_cells`]); `None` if there is no such hook, or nothing is counted.
    pub fn size_cells(&self, hook: usize) -> Option<[usize; 2]> {
        let first = field(self.descriptor.size_cells);
        let cell = |number| first + number * image::CELL_BYTES;
        (hook < MAX_HOOKS && first != 0).then(|| [cell(hook), cell(MAX_HOOKS + hook)])
    }

    /// Where in the text `rt_sigreturn` is called.
    pub fn sigreturn_offset(&self) -> usize {
        field(self.descriptor.sigreturn)
    }
}

fn needs_nothing(elf: &Elf<'_>) -> Result<(), PayloadImageError> {
    let relocations = elf.dynrelas.len() + elf.dynrels.len() + elf.pltrelocs.len();
    if relocations != 0 || !elf.shdr_relocs.is_empty() {
        return Err(Error::Needs("relocations"));
    }
    if !elf.libraries.is_empty() {
        return Err(Error::Needs("libraries"));
    }
    // The first symbol is the null symbol.
    if elf.dynsyms.iter().skip(1).any(|symbol| symbol.is_import() || symbol.st_shndx == 0) {
        return Err(Error::Needs("symbols"));
    }
    if elf.dynsyms.len() > 2 {
        return Err(Error::Exports);
    }
    Ok(())
}

/// The bytes of the section, if the exported symbol stands at its start.
fn section<'a>(elf: &Elf<'_>, file: &'a [u8]) -> Result<(u64, &'a [u8]), PayloadImageError> {
    const MISSING: Error = Error::Missing(image::SECTION);
    let named = |s: &&section_header::SectionHeader| {
        elf.shdr_strtab.get_at(s.sh_name) == Some(image::SECTION)
    };
    let header = elf.section_headers.iter().find(named).ok_or(MISSING)?;
    let alloc = u64::from(section_header::SHF_ALLOC);
    let code = alloc | u64::from(section_header::SHF_EXECINSTR);
    let relevant = code | u64::from(section_header::SHF_WRITE);
    if header.sh_flags & relevant != code || header.sh_type != section_header::SHT_PROGBITS {
        return Err(MISSING);
    }
    let symbol =
        elf.dynsyms.iter().find(|s| elf.dynstrtab.get_at(s.st_name) == Some(image::SYMBOL));
    if symbol.is_none_or(|symbol| symbol.st_value != header.sh_addr) {
        return Err(Error::Missing(image::SYMBOL));
    }
    let text = header.file_range().and_then(|range| file.get(range)).ok_or(MISSING)?;
    Ok((header.sh_addr, text))
}

fn check(image: &Image, len: usize) -> Result<(), PayloadImageError> {
    if image.magic != image::MAGIC {
        return Err(Error::Magic);
    }
    if image.version != image::VERSION {
        return Err(Error::Version { found: image.version });
    }
    let inside = |start: u32, count: usize, size: u32| {
        let bytes = field(size).checked_mul(count);
        bytes.and_then(|bytes| bytes.checked_add(field(start))).is_some_and(|end| end <= len)
    };
    let cell = |start: u32, count| start.is_multiple_of(8) && inside(start, count, 8);
    let kinds = HookKind::ALL.iter().zip(&image.kinds);
    let mut kinds = kinds.map(|(kind, hooks)| {
        field(hooks.first) == kind.first_hook() && field(hooks.count) == kind.hooks()
    });
    let fields = [
        (field(image.text_len) <= len, "length"),
        (image.hook_stride != 0, "distance of hooks"),
        (image.brief < image.hook_stride, "distance of brief hooks"),
        (inside(image.hooks, MAX_HOOKS, image.hook_stride), "place of the hooks"),
        (cell(image.control_cell, 1), "cell for the control page"),
        (cell(image.index_cell, 1), "cell for the index"),
        (cell(image.filter_cell, 1), "cell for the filter"),
        (cell(image.orig_cells, MAX_HOOKS), "cell for the originals"),
        (cell(image.second_cells, MAX_HOOKS), "second cell"),
        (image.size_cells == 0 || cell(image.size_cells, 2 * MAX_HOOKS), "cell for sizes"),
        (inside(image.sigreturn, 1, 9), "place of sigreturn"),
        (kinds.all(|agrees| agrees), "list of hooks"),
    ];
    fields.iter().try_for_each(|&(sound, name)| sound.then_some(()).ok_or(Error::Field(name)))
}

/// A field of the descriptor as an index: a `u32` always fits.
fn field(value: u32) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use heapattach_abi::kind::KINDS;

    use super::*;

    const LEN: usize = 20_400;

    fn sound() -> Image {
        let mut kinds = [image::KindHooks::default(); KINDS];
        for (kind, hooks) in HookKind::ALL.iter().zip(&mut kinds) {
            hooks.first = u32::try_from(kind.first_hook()).unwrap();
            hooks.count = u32::try_from(kind.hooks()).unwrap();
        }
        Image {
            magic: image::MAGIC,
            version: image::VERSION,
            text_len: 20_000,
            hooks: 192,
            hook_stride: 256,
            control_cell: 17_024,
            index_cell: 17_032,
            filter_cell: 17_040,
            orig_cells: 17_088,
            sigreturn: 17_008,
            second_cells: 17_600,
            size_cells: 18_112,
            brief: 128,
            kinds,
        }
    }

    fn refusal(change: impl FnOnce(&mut Image)) -> String {
        let mut image = sound();
        change(&mut image);
        check(&image, LEN).unwrap_err().to_string()
    }

    #[test]
    fn a_sound_descriptor_passes() {
        check(&sound(), LEN).unwrap();
    }

    #[test]
    fn every_field_of_the_descriptor_is_checked() {
        assert!(refusal(|i| i.magic ^= 1).contains("magic"));
        assert!(refusal(|i| i.version += 1).contains(&format!("version {}", image::VERSION + 1)));
        assert!(refusal(|i| i.text_len += 401).contains("length"));
        assert!(refusal(|i| i.hook_stride = 0).contains("distance"));
        assert!(refusal(|i| i.brief = 256).contains("distance of brief hooks"));
        assert!(refusal(|i| i.hook_stride = u32::MAX).contains("place of the hooks"));
        assert!(refusal(|i| i.hooks = 4_100).contains("place of the hooks"));
        assert!(refusal(|i| i.control_cell = 20_400).contains("control"));
        assert!(refusal(|i| i.control_cell += 4).contains("control"));
        assert!(refusal(|i| i.index_cell = u32::MAX - 7).contains("index"));
        assert!(refusal(|i| i.filter_cell = u32::MAX - 7).contains("filter"));
        assert!(refusal(|i| i.orig_cells = 19_896).contains("originals"));
        assert!(refusal(|i| i.second_cells = 19_896).contains("second"));
        assert!(refusal(|i| i.sigreturn = 20_392).contains("sigreturn"));
        assert!(refusal(|i| i.kinds[4].count += 1).contains("list of hooks"));
    }

    #[test]
    fn files_that_are_no_payload_are_refused() {
        assert!(matches!(PayloadImage::parse(b""), Err(Error::Elf(_))));
        assert!(matches!(PayloadImage::parse(&[0x7f; 4096]), Err(Error::Elf(_))));
        let own = std::fs::read("/proc/self/exe").unwrap();
        let error = PayloadImage::parse(&own).unwrap_err();
        assert!(matches!(error, Error::Needs("relocations")), "{error}");
    }
}
