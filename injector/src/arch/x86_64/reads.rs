//! Which words a function reads: where a program keeps something is told by its own code.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use heapattach_process::addr::RemoteAddr;

/// The first word of such a range that this code, which lies at `at`, reads: by its address, or so far behind
/// one that it took right before.
pub fn first_read_in(code: &[u8], at: RemoteAddr, range: &Range<RemoteAddr>) -> Option<RemoteAddr> {
    let mut taken: Option<(Register, u64)> = None;
    let is_in = |address: u64| range.contains(&RemoteAddr::new(address));
    for one in instructions(code, at) {
        let is_relative = one.is_ip_rel_memory_operand() && is_in(one.ip_rel_memory_address());
        match one.mnemonic() {
            Mnemonic::Lea if is_relative => {
                taken = Some((one.op0_register(), one.ip_rel_memory_address()));
            }
            Mnemonic::Mov if reads(&one) && is_relative => {
                return Some(RemoteAddr::new(one.ip_rel_memory_address()));
            }
            Mnemonic::Mov if reads(&one) => {
                let Some((register, address)) = taken else { continue };
                if one.memory_base() == register && one.memory_index() == Register::None {
                    let word = address.wrapping_add(one.memory_displacement64());
                    return is_in(word).then(|| RemoteAddr::new(word));
                }
            }
            _ => {}
        }
    }
    None
}

/// How far behind addresses in registers this code reads words.
pub fn read_distances(code: &[u8], at: RemoteAddr) -> Vec<u64> {
    let from_register = |one: &Instruction| {
        matches!(one.mnemonic(), Mnemonic::Mov | Mnemonic::Movsxd)
            && reads(one)
            && one.memory_base() != Register::None
            && !one.is_ip_rel_memory_operand()
    };
    let reads = instructions(code, at).filter(from_register);
    reads.map(|one| one.memory_displacement64()).collect()
}

/// The first address of a place of its own that this code takes.
pub fn first_address_taken(code: &[u8], at: RemoteAddr) -> Option<RemoteAddr> {
    let taken =
        |one: &Instruction| one.mnemonic() == Mnemonic::Lea && one.is_ip_rel_memory_operand();
    let one = instructions(code, at).find(taken)?;
    Some(RemoteAddr::new(one.ip_rel_memory_address()))
}

/// What this code adds to registers.
pub fn constants_added(code: &[u8], at: RemoteAddr) -> Vec<u64> {
    let is_one = |one: &Instruction| {
        one.mnemonic() == Mnemonic::Add
            && one.op0_kind() == OpKind::Register
            && !matches!(one.op1_kind(), OpKind::Register | OpKind::Memory)
    };
    instructions(code, at).filter(is_one).map(|one| one.immediate(1)).collect()
}

fn reads(one: &Instruction) -> bool {
    one.op0_kind() == OpKind::Register && one.op1_kind() == OpKind::Memory
}

fn instructions(code: &[u8], at: RemoteAddr) -> impl Iterator<Item = Instruction> {
    Decoder::with_ip(64, code, at.get(), DecoderOptions::NONE).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: RemoteAddr = RemoteAddr::new(0x2f_2b30);

    /// `lea rax, [0x58ae60]`, `mov rax, [rax + 0x1e8]`, `test rax, rax`.
    const BY_ADDRESS: [u8; 17] =
        [0x48, 0x8d, 0x05, 0x29, 0x83, 0x29, 0, 0x48, 0x8b, 0x80, 0xe8, 1, 0, 0, 0x48, 0x85, 0xc0];

    #[test]
    fn a_word_is_read_by_its_address_or_behind_one() {
        let range = RemoteAddr::new(0x58_ae60)..RemoteAddr::new(0x58_b568);
        let word = Some(RemoteAddr::new(0x58_ae60 + 488));
        assert_eq!(first_read_in(&BY_ADDRESS, AT, &range), word);
        // `mov rax, [0x58b048]`
        let mut at_once = vec![0x48, 0x8b, 0x05];
        at_once.extend((0x58_b048 - 0x2f_2b37_u32).to_le_bytes());
        assert_eq!(first_read_in(&at_once, AT, &range), word);
        let other = RemoteAddr::new(0x100)..RemoteAddr::new(0x200);
        assert_eq!(first_read_in(&BY_ADDRESS, AT, &other), None);
        for cut in 0..14 {
            assert_eq!(first_read_in(&BY_ADDRESS[..cut], AT, &range), None, "{cut}");
        }
        assert_eq!(read_distances(&BY_ADDRESS, AT), [488]);
    }

    #[test]
    fn addresses_taken_and_constants_added_are_told() {
        assert_eq!(first_address_taken(&BY_ADDRESS, AT), Some(RemoteAddr::new(0x58_ae60)));
        // `add rsi, 64`, `add rax, rsi`, `ret`
        let adds = [0x48, 0x83, 0xc6, 0x40, 0x48, 0x01, 0xf0, 0xc3];
        assert_eq!((constants_added(&adds, AT), first_address_taken(&adds, AT)), (vec![64], None));
    }
}
