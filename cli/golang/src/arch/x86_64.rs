//! x86-64: operands are relative to the next instruction.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, Instruction};

/// What instructions refer to by their own place, outside of the code; in their order.
pub(crate) fn leads_out(code: &[u8], at: u64, text: &Range<u64>) -> Vec<u64> {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut targets = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if instruction.is_ip_rel_memory_operand() {
            let target = instruction.ip_rel_memory_address();
            if !text.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_into_the_code_itself_do_not_count() {
        // lea rax, [rip+0x100]; lea rcx, [rip-7-7]; mov rax, [rip+0x10]
        let code = [
            0x48, 0x8d, 5, 0, 1, 0, 0, 0x48, 0x8d, 0xd, 0xf2, 0xff, 0xff, 0xff, 0x48, 0x8b, 5,
            0x10, 0, 0, 0,
        ];
        assert_eq!(leads_out(&code, 0x1000, &(0x1000..0x1015)), [0x1107, 0x1025]);
    }
}
