//! The numbers of x86-64 in ELF files.

use object::elf;

use crate::image::Machine;

pub(crate) const MACHINE: Machine = Machine {
    number: elf::EM_X86_64,
    relative: [elf::R_X86_64_RELATIVE, elf::R_X86_64_IRELATIVE],
    by_name: [elf::R_X86_64_JUMP_SLOT, elf::R_X86_64_GLOB_DAT],
    absolute: elf::R_X86_64_64,
};
