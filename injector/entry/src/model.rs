//! For tests: a small ELF file made of hand-written machine code.

use heapattach_process::addr::ImageAddr;

use super::{
    Analysis, Family, Hooked, Refusal, Role, analyse,
    arch::{machine::MACHINE, window::Window},
    function_ranges::FunctionRanges,
    image::Image,
};

/// Where the code of a model begins.
pub(super) const CODE: u64 = 0x1_0000;
/// Where its data begins.
pub(super) const DATA: u64 = 0x100_0000;

const CODE_FILE: usize = 0x1000;
const SYMBOL: usize = 24;

/// A module in the making. Code not written to is int3.
#[derive(Default)]
pub(super) struct Model {
    code: Vec<u8>,
    data: Vec<u8>,
    exported: Vec<(u64, u64)>,
    local: Vec<(u64, u64)>,
    relocations: Vec<[u64; 3]>,
}

impl Model {
    /// A function that other modules can name, at `CODE + offset`.
    pub(super) fn exports(mut self, offset: u64, code: &[u8]) -> Self {
        self.exported.push((CODE + offset, code.len() as u64));
        self.code(offset, code)
    }

    /// A function of the module's own.
    pub(super) fn function(mut self, offset: u64, code: &[u8]) -> Self {
        self.local.push((CODE + offset, code.len() as u64));
        self.code(offset, code)
    }

    /// Code that no table knows of.
    pub(super) fn code(mut self, offset: u64, code: &[u8]) -> Self {
        let offset = usize::try_from(offset).unwrap();
        let end = offset + code.len();
        self.code.resize(self.code.len().max(end), 0xcc);
        self.code[offset..end].copy_from_slice(code);
        self
    }

    pub(super) fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }

    /// A word of data that holds an address of this module.
    pub(super) fn points(mut self, word: u64, to: u64) -> Self {
        self.relocations.push([word, 8, to]);
        self
    }

    /// A slot of the GOT for the exported function of this index.
    pub(super) fn slot(mut self, word: u64, exported: u64) -> Self {
        self.relocations.push([word, (exported + 1) << 32 | 7, 0]);
        self
    }

    pub(super) fn analyse(&self, hooked: &[(u64, Family)], role: Role) -> Analysis {
        let function = |&(offset, family)| Hooked {
            name: "f",
            address: at(offset),
            size: 0,
            family,
            keeps_flags: false,
        };
        let hooked: Vec<_> = hooked.iter().map(function).collect();
        analyse(&self.build(), &hooked, role).unwrap()
    }

    /// Why the heap function at `offset` of a library is refused.
    pub(super) fn refusal(&self, offset: u64) -> Option<Refusal> {
        let analysis = self.analyse(&[(offset, Family::Heap)], Role::Library);
        analysis.entry(at(offset)).unwrap().plan.as_ref().err().copied()
    }

    /// The window of the function at `offset`, whatever leads into it.
    pub(super) fn window(&self, offset: u64) -> Result<Window, Refusal> {
        let file = self.build();
        let image = Image::parse(&file, &MACHINE).unwrap();
        Window::cut(&image, &FunctionRanges::new(&image, &[]), CODE + offset)
    }

    pub(super) fn build(&self) -> Vec<u8> {
        let mut file = vec![0; CODE_FILE];
        let code = append(&mut file, &self.code);
        let data = append(&mut file, &self.data);
        let dynamic = append(&mut file, &symbols(&self.exported));
        let full = append(&mut file, &symbols(&self.local));
        let strings = append(&mut file, &[0]);
        let words: Vec<u8> =
            self.relocations.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let relocations = append(&mut file, &words);
        let mut sections = vec![0; 64];
        sections.extend(section(11, dynamic, 4, SYMBOL));
        sections.extend(section(2, full, 4, SYMBOL));
        sections.extend(section(4, relocations, 1, SYMBOL));
        sections.extend(section(3, strings, 0, 0));
        let sections = append(&mut file, &sections);
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
        push(&mut head, &[(3, 2), (62, 2), (1, 4), (0, 8), (64, 8), (sections.0 as u64, 8)]);
        push(&mut head, &[(0, 4), (64, 2), (56, 2), (2, 2), (64, 2), (5, 2), (4, 2)]);
        for ((offset, len), at, flags) in [(code, CODE, 5), (data, DATA, 6)] {
            push(&mut head, &[(1, 4), (flags, 4), (offset as u64, 8), (at, 8), (at, 8)]);
            push(&mut head, &[(len as u64, 8), (len as u64, 8), (1, 8)]);
        }
        file[..head.len()].copy_from_slice(&head);
        file
    }
}

pub(super) fn at(offset: u64) -> ImageAddr {
    ImageAddr::new(CODE + offset)
}

/// `opcode`, then the distance from its end at `from` to `to`.
pub(super) fn branch(opcode: &[u8], from: u64, to: u64) -> Vec<u8> {
    let next = from + opcode.len() as u64 + 4;
    let distance = i32::try_from(to.wrapping_sub(next).cast_signed()).unwrap();
    [opcode, &distance.to_le_bytes()].concat()
}

fn push(file: &mut Vec<u8>, fields: &[(u64, usize)]) {
    for (value, width) in fields {
        file.extend_from_slice(&value.to_le_bytes()[..*width]);
    }
}

fn append(file: &mut Vec<u8>, bytes: &[u8]) -> (usize, usize) {
    file.resize(file.len().next_multiple_of(8), 0);
    file.extend_from_slice(bytes);
    (file.len() - bytes.len(), bytes.len())
}

fn symbols(functions: &[(u64, u64)]) -> Vec<u8> {
    let mut table = vec![0; SYMBOL];
    for &(address, size) in functions {
        push(&mut table, &[(0, 4), (0x12, 1), (0, 1), (1, 2), (address, 8), (size, 8)]);
    }
    table
}

fn section(kind: u64, (offset, len): (usize, usize), link: u64, entry: usize) -> Vec<u8> {
    let mut header = Vec::new();
    push(&mut header, &[(0, 4), (kind, 4), (0, 8), (0, 8), (offset as u64, 8), (len as u64, 8)]);
    push(&mut header, &[(link, 4), (0, 4), (8, 8), (entry as u64, 8)]);
    header
}
