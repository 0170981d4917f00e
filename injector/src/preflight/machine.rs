//! The machine that a program is made for, as the first bytes of a file of code for it state it.

use crate::{arch, refusal::Refusal};

/// So many bytes tell.
pub(crate) const HEAD: usize = 20;

const CLASS_AT: usize = 4;
const CLASS_64: u8 = 2;
const ORDER_AT: usize = 5;
const LITTLE_ENDIAN: u8 = 1;
const MACHINE_AT: usize = 18;

/// Refuses programs of other machines.
///
/// # Errors
/// With the machine named.
pub(crate) fn check(head: &[u8; HEAD]) -> Result<(), Refusal> {
    let is_64_bit = head[CLASS_AT] == CLASS_64;
    let bytes = [head[MACHINE_AT], head[MACHINE_AT + 1]];
    let machine = match head[ORDER_AT] {
        LITTLE_ENDIAN => u16::from_le_bytes(bytes),
        _ => u16::from_be_bytes(bytes),
    };
    if is_64_bit && machine == arch::ELF_MACHINE {
        return Ok(());
    }
    let bits = if is_64_bit { 64 } else { 32 };
    Err(Refusal::unsupported(
        format!("the program is a {bits}-bit one for {} (ELF machine {machine})", name(machine)),
        &format!("a 64-bit {} program", arch::MACHINE),
        "heapattach does not support this kind of program yet",
    ))
}

fn name(machine: u16) -> &'static str {
    match machine {
        3 => "x86",
        8 => "MIPS",
        20 | 21 => "POWER",
        22 => "s390",
        40 => "ARM",
        62 => "x86-64",
        183 => "AArch64",
        243 => "RISC-V",
        258 => "LoongArch",
        _ => "an unknown machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(class: u8, order: u8, machine: [u8; 2]) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        (head[CLASS_AT], head[ORDER_AT]) = (class, order);
        head[MACHINE_AT..].copy_from_slice(&machine);
        head
    }

    #[test]
    fn programs_of_other_machines_are_refused_by_name() {
        for (class, order, machine, words) in [
            (1, 1, [3, 0], "32-bit one for x86 "),
            (1, 1, [62, 0], "32-bit one for x86-64 "),
            (1, 1, [40, 0], "32-bit one for ARM "),
            (2, 1, [183, 0], "64-bit one for AArch64 "),
            (2, 1, [243, 0], "64-bit one for RISC-V "),
            (2, 2, [0, 22], "64-bit one for s390 "),
            (2, 1, [255, 255], "64-bit one for an unknown machine "),
        ] {
            let refusal = check(&head(class, order, machine)).unwrap_err();
            assert!(refusal.unsupported && refusal.value.contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_program_of_this_machine_is_not() {
        assert_eq!(check(&head(2, 1, arch::ELF_MACHINE.to_le_bytes())), Ok(()));
    }
}
