//! What the instructions of a function do that always answers the same. A compiler makes of one a
//! load of an address and a return, without optimisation with a frame around them.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use heapattach_process::addr::RemoteAddr;

/// What one instruction does, as far as the answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// It goes on elsewhere.
    Jumps(RemoteAddr),
    /// This is the answer.
    Answers(u64),
    /// The word there is.
    AnswersWord(RemoteAddr),
    /// Half a word, as an `int` is.
    AnswersHalf(RemoteAddr),
    /// The function returns.
    Returns,
}

/// The first instruction of `code`, which lies at `at`, and its length; `None` if it does something
/// else, or is none.
pub fn answer_step(code: &[u8], at: RemoteAddr) -> Option<(Step, usize)> {
    let instruction = Decoder::with_ip(64, code, at.get(), DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let step = match instruction.mnemonic() {
        Mnemonic::Endbr64 | Mnemonic::Nop | Mnemonic::Leave => Step::Nothing,
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Mov
            if instruction.op0_register() == Register::RBP =>
        {
            Step::Nothing
        }
        Mnemonic::Jmp if instruction.op0_kind() == OpKind::NearBranch64 => {
            Step::Jumps(RemoteAddr::new(instruction.near_branch_target()))
        }
        Mnemonic::Ret => Step::Returns,
        _ => loaded(&instruction)?,
    };
    Some((step, instruction.len()))
}

/// What an instruction loads into the register of the answer.
fn loaded(instruction: &Instruction) -> Option<Step> {
    let (to, by_place) = (instruction.op0_register(), instruction.is_ip_rel_memory_operand());
    if !matches!(to, Register::RAX | Register::EAX) {
        return None;
    }
    let place = instruction.ip_rel_memory_address();
    match (instruction.mnemonic(), instruction.op1_kind()) {
        (Mnemonic::Lea, OpKind::Memory) if by_place => Some(Step::Answers(place)),
        (Mnemonic::Mov, OpKind::Memory) if by_place => {
            let is_half = to == Register::EAX;
            let at = RemoteAddr::new(place);
            Some(if is_half { Step::AnswersHalf(at) } else { Step::AnswersWord(at) })
        }
        (Mnemonic::Mov, OpKind::Immediate64 | OpKind::Immediate32to64) => {
            Some(Step::Answers(instruction.immediate(1)))
        }
        (Mnemonic::Mov, OpKind::Immediate32) => {
            Some(Step::Answers(u64::from(instruction.immediate32())))
        }
        (Mnemonic::Xor, OpKind::Register) if instruction.op1_register() == to => {
            Some(Step::Answers(0))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Write};

    use heapattach_process::memory::Memory;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use proptest::prelude::*;

    use super::*;
    use crate::snapshot::constant::{ConstantError, number, text};

    const TEXT_AT: usize = 0x100;

    /// Code at 0x10, and a text.
    fn memory(code: &[u8]) -> Memory {
        let mut bytes = vec![0; 0x200];
        bytes[0x10..0x10 + code.len()].copy_from_slice(code);
        bytes[TEXT_AT..TEXT_AT + 7].copy_from_slice(b"leak:x\0");
        bytes[0x180] = 1;
        bytes[0x181] = 0;
        bytes[0x180..0x188].copy_from_slice(&(TEXT_AT as u64).to_le_bytes());
        let mut file = File::from(memfd_create("memory", MFdFlags::empty()).unwrap());
        file.write_all(&bytes).unwrap();
        Memory::of(file)
    }

    fn of(code: &[u8]) -> Result<Option<String>, ConstantError> {
        text(&memory(code), RemoteAddr::new(0x10))
    }

    #[test]
    fn what_compilers_make_of_it_is_understood() {
        let cases: [&[u8]; 7] = [
            // lea rax, [rip+0xe9]; ret
            b"\x48\x8d\x05\xe9\x00\x00\x00\xc3",
            // endbr64; lea rax, [rip+0xe5]; ret
            b"\xf3\x0f\x1e\xfa\x48\x8d\x05\xe5\x00\x00\x00\xc3",
            // mov eax, 0x100; ret
            b"\xb8\x00\x01\x00\x00\xc3",
            // push rbp; mov rbp, rsp; lea rax, [rip+0xe5]; pop rbp; ret
            b"\x55\x48\x89\xe5\x48\x8d\x05\xe5\x00\x00\x00\x5d\xc3",
            // jmp +3; int3 x3; mov eax, 0x100; ret
            b"\xeb\x03\xcc\xcc\xcc\xb8\x00\x01\x00\x00\xc3",
            // movabs rax, 0x100; ret
            b"\x48\xb8\x00\x01\x00\x00\x00\x00\x00\x00\xc3",
            // mov rax, [rip+0x169]; ret
            b"\x48\x8b\x05\x69\x01\x00\x00\xc3",
        ];
        for code in cases {
            assert_eq!(of(code), Ok(Some("leak:x".to_owned())), "{code:02x?}");
        }
        assert_eq!(of(b"\x31\xc0\xc3"), Ok(None), "xor eax, eax; ret");
    }

    #[test]
    fn a_number_is_half_a_word() {
        let of = |code: &[u8]| number(&memory(code), RemoteAddr::new(0x10));
        assert_eq!(of(b"\x31\xc0\xc3"), Ok(0), "xor eax, eax; ret");
        assert_eq!(of(b"\xb8\x01\x00\x00\x00\xc3"), Ok(1), "mov eax, 1; ret");
        assert_eq!(of(b"\x8b\x05\x6a\x01\x00\x00\xc3"), Ok(0x100), "mov eax, [rip+0x16a]; ret");
    }

    #[test]
    fn what_does_more_is_refused_with_the_place() {
        let cases: [&[u8]; 5] = [
            b"\xe8\x00\x00\x00\x00\xc3",     // call
            b"\xc3",                         // ret without an answer
            b"\xeb\x00\xeb\x00\xeb\x00\xc3", // jumps on and on
            b"\xeb\xfe",                     // jumps to itself
            b"\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90\xc3",
        ];
        for code in cases {
            assert!(matches!(of(code), Err(ConstantError::Code(_))), "{code:02x?}");
        }
    }

    #[test]
    fn a_text_that_is_not_there_is_refused() {
        let refused = of(b"\xb8\x00\x00\x00\x7f\xc3").unwrap_err();
        assert!(matches!(refused, ConstantError::Memory { what: "its text", .. }), "{refused}");
    }

    proptest! {
        #[test]
        fn no_code_makes_it_panic(code in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = of(&code);
            prop_assert!(true);
        }
    }
}
