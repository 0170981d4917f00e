//! What is known of a call from the code before it: what it calls, and which of its arguments are addresses that the
//! code states.

use std::{collections::HashSet, ops::Range};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess,
    OpKind, Register,
};

/// Registers of arguments, in the order in which Go's functions take them.
pub(super) const ARGUMENTS: [Register; 9] = [
    Register::RAX,
    Register::RBX,
    Register::RCX,
    Register::RDI,
    Register::RSI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];
/// By the number of a general register: what the code has put into it, if it states that.
type Known = [Option<u64>; 16];

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Where it leads.
    pub target: u64,
    arguments: [Option<u64>; ARGUMENTS.len()],
}

impl Call {
    /// An argument that the code states: an address by its own place.
    pub(crate) fn argument(&self, number: usize) -> Option<u64> {
        self.arguments.get(number).copied().flatten()
    }
}

/// The direct call of a function that returns to an address. Nothing is known where ways of the code meet, or behind a
/// call.
pub(crate) fn call_before(code: &[u8], at: u64, back: u64) -> Option<Call> {
    let joins = joins(code, at);
    let end = usize::try_from(back.checked_sub(at)?).ok()?;
    let mut decoder = Decoder::with_ip(64, code.get(..end)?, at, DecoderOptions::NONE);
    let mut infos = InstructionInfoFactory::new();
    let mut known = Known::default();
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if joins.contains(&instruction.ip()) {
            known = Known::default();
        }
        if instruction.next_ip() == back {
            let is_call = instruction.flow_control() == FlowControl::Call;
            let target = instruction.near_branch_target();
            let value = |register: Register| known.get(register.number()).copied().flatten();
            let arguments = ARGUMENTS.map(value);
            return (is_call && target != 0).then_some(Call { target, arguments });
        }
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {
                note(&instruction, &mut infos, &mut known);
            }
            _ => known = Known::default(),
        }
    }
    None
}

/// Where branches lead.
fn joins(code: &[u8], at: u64) -> HashSet<u64> {
    let text: Range<u64> = at..at.saturating_add(code.len() as u64);
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut joins = HashSet::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let branches = [FlowControl::ConditionalBranch, FlowControl::UnconditionalBranch];
        if branches.contains(&instruction.flow_control())
            && text.contains(&instruction.near_branch_target())
        {
            joins.insert(instruction.near_branch_target());
        }
    }
    joins
}

/// What an instruction puts into registers.
fn note(instruction: &Instruction, infos: &mut InstructionInfoFactory, known: &mut Known) {
    let is_address =
        instruction.code() == Code::Lea_r64_m && instruction.is_ip_rel_memory_operand();
    let is_copy = matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64)
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register;
    let value = if is_address {
        Some(instruction.ip_rel_memory_address())
    } else if is_copy {
        known.get(instruction.op1_register().number()).copied().flatten()
    } else {
        None
    };
    for used in infos.info(instruction).used_registers() {
        let is_read = matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
        let register = used.register().full_register();
        if !is_read
            && register.is_gpr()
            && let Some(known) = known.get_mut(register.number())
        {
            *known = None;
        }
    }
    let register = instruction.op0_register();
    if (is_address || is_copy)
        && let Some(known) = known.get_mut(register.number())
    {
        *known = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `call` to 0x2000 from that place.
    fn call(code: &mut Vec<u8>) -> u64 {
        let next = 0x1000 + code.len() as u64 + 5;
        code.push(0xe8);
        code.extend(u32::try_from(0x2000 - next).unwrap().to_le_bytes());
        next
    }

    const LEA_RAX: [u8; 7] = [0x48, 0x8d, 5, 0, 1, 0, 0];

    #[test]
    fn the_address_that_is_put_into_a_register_is_an_argument() {
        // lea rax, [rip+0x100]; mov rsi, rax; mov ecx, 1; call
        let mut code = [&LEA_RAX[..], &[0x48, 0x89, 0xc6], &[0xb9, 1, 0, 0, 0]].concat();
        let back = call(&mut code);
        let found = call_before(&code, 0x1000, back).unwrap();
        assert_eq!(found.target, 0x2000);
        assert_eq!((found.argument(0), found.argument(4)), (Some(0x1107), Some(0x1107)));
        assert_eq!((found.argument(1), found.argument(2), found.argument(99)), (None, None, None));
        assert_eq!(call_before(&code, 0x1000, back - 1), None, "in the middle of it");
    }

    #[test]
    fn what_was_overwritten_or_comes_by_another_way_is_not_known() {
        // Written in part: mov al, 1. By a multiplication: mul rbx. By another way: jne to the call.
        for between in [&[0xb0, 1][..], &[0x48, 0xf7, 0xe3]] {
            let mut code = [&LEA_RAX, between].concat();
            let back = call(&mut code);
            assert_eq!(call_before(&code, 0x1000, back).unwrap().argument(0), None, "{between:x?}");
        }
        let mut code = [&[0x75, 7][..], &LEA_RAX].concat();
        let back = call(&mut code);
        assert_eq!(call_before(&code, 0x1000, back).unwrap().argument(0), None, "jne to the call");
        // Behind a call: of the second one nothing is known.
        let mut code = LEA_RAX.to_vec();
        call(&mut code);
        let back = call(&mut code);
        assert_eq!(call_before(&code, 0x1000, back).unwrap().argument(0), None);
    }

    #[test]
    fn bytes_that_are_no_code_are_no_call() {
        for seed in 0..=255_u8 {
            let code: Vec<u8> = (0..64_u8).map(|at| seed.wrapping_mul(at).rotate_left(3)).collect();
            for back in 0x1000..0x1050 {
                let _ = call_before(&code, 0x1000, back);
            }
        }
    }
}
