//! Whether a function writes over the arithmetic flags before anything could read them.
//!
//! Then no caller can have counted on their being kept, and no callee on finding them, and the hook
//! in front of the function need not keep them: saving them would cost more than all else it does.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, RflagsBits};

use super::jump::is_near_branch;
use crate::{Refusal, image::Image};
use heapattach_process::addr::ImageAddr;

/// The flags that arithmetic sets.
const ARITHMETIC: u32 = RflagsBits::OF
    | RflagsBits::SF
    | RflagsBits::ZF
    | RflagsBits::AF
    | RflagsBits::CF
    | RflagsBits::PF;
/// Instructions looked at for one function. Compilers compare something within the first few.
const LOOKS: usize = 64;

/// A way through the function, and the flags not yet written on it.
struct Way {
    at: u64,
    kept: u32,
}

/// Follows every way from `entry` until all flags are written over.
///
/// # Errors
/// The first instruction that may read a flag of the caller, or leads where it cannot be followed.
pub(crate) fn written_over(image: &Image<'_>, entry: u64) -> Result<(), Refusal> {
    let mut ways = vec![Way { at: entry, kept: ARITHMETIC }];
    let mut looks = 0..LOOKS;
    while let Some(way) = ways.pop() {
        let kept = Refusal::KeepsFlags(ImageAddr::new(way.at));
        looks.next().ok_or(kept)?;
        let code = image.code_from(way.at).ok_or(kept)?;
        let instruction = Decoder::with_ip(64, code, way.at, DecoderOptions::NONE).decode();
        // The kernel gives the flags back as they were.
        if instruction.mnemonic() == Mnemonic::Syscall {
            ways.push(Way { at: instruction.next_ip(), ..way });
            continue;
        }
        if instruction.is_invalid() || instruction.rflags_read() & way.kept != 0 {
            return Err(kept);
        }
        let next = Way { at: instruction.next_ip(), kept: way.kept & !writes(&instruction) };
        if next.kept == 0 {
            continue;
        }
        let branch = is_near_branch(&instruction)
            .then(|| Way { at: instruction.near_branch_target(), kept: next.kept });
        match (instruction.flow_control(), branch) {
            (FlowControl::Next, _) => ways.push(next),
            (FlowControl::UnconditionalBranch | FlowControl::Call, Some(branch)) => {
                ways.push(branch);
            }
            (FlowControl::ConditionalBranch, Some(branch)) => ways.extend([next, branch]),
            _ => return Err(kept),
        }
    }
    Ok(())
}

/// The flags that an instruction writes whatever its operands are.
fn writes(instruction: &Instruction) -> u32 {
    let may_do_nothing = instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Shl
                | Mnemonic::Sal
                | Mnemonic::Shr
                | Mnemonic::Sar
                | Mnemonic::Rol
                | Mnemonic::Ror
                | Mnemonic::Rcl
                | Mnemonic::Rcr
                | Mnemonic::Shld
                | Mnemonic::Shrd
        );
    if may_do_nothing { 0 } else { instruction.rflags_modified() }
}

#[cfg(test)]
mod tests {
    use crate::{
        Refusal,
        model::{Model, at, branch},
    };

    fn refusal(code: &[u8]) -> Option<Refusal> {
        Model::default().exports(0, code).refusal(0)
    }

    fn kept(offset: u64) -> Option<Refusal> {
        Some(Refusal::KeepsFlags(at(offset)))
    }

    #[test]
    fn a_comparison_on_every_way_is_what_is_needed() {
        assert_eq!(refusal(b"\x41\x54\x55\x48\x85\xff\xc3"), None, "push; push; test; ret");
        assert_eq!(refusal(b"\xb8\x0b\0\0\0\x0f\x05\x48\x3d\0\0\0\0\xc3"), None, "syscall; cmp");
        assert_eq!(refusal(b"\x48\x89\xf8\x48\x89\xf2\xc3"), kept(6), "returns without");
        assert_eq!(refusal(b"\x48\x89\xf8\x48\xf7\xe6\xc3"), None, "mul leaves four undefined");
        assert_eq!(refusal(b"\x48\xff\xc7\x48\x89\xf8\xc3"), kept(6), "inc keeps the carry");
        assert_eq!(refusal(b"\x48\xd3\xe0\x48\x89\xf8\xc3"), kept(6), "a shift by nothing");
        assert_eq!(refusal(b"\x48\x89\xf8\xf3\xa6\xc3"), kept(5), "no byte to compare");
    }

    #[test]
    fn what_reads_a_flag_first_is_refused() {
        assert_eq!(refusal(b"\x48\x11\xf8\x48\x85\xff\xc3"), kept(0), "adc");
        assert_eq!(refusal(b"\x48\x89\xf8\x74\x03\x48\x85\xff\xc3"), kept(3), "je");
        assert_eq!(refusal(b"\x48\x89\xf8\x9c\x58\x48\x85\xff\xc3"), kept(3), "pushf");
    }

    #[test]
    fn both_ways_of_a_branch_and_those_to_elsewhere_are_followed() {
        // inc; je +4; test; ret; ret: the branch is taken before the carry is written.
        let code = b"\x48\xff\xc7\x74\x04\x48\x85\xff\xc3\xc3";
        assert_eq!(refusal(code), kept(9));
        let jump = |code: &[u8]| {
            let model = Model::default().exports(0, &branch(b"\xe9", 0, 0x100));
            model.function(0x100, code).refusal(0)
        };
        assert_eq!(jump(b"\x48\x85\xff\xc3"), None);
        assert_eq!(jump(b"\xc3"), kept(0x100));
        assert_eq!(refusal(b"\xff\x25\x00\x10\x00\x00"), kept(0), "jmp *slot(%rip)");
        let endless = refusal(b"\x90\x90\x90\x90\x90\x90\xeb\xfd");
        assert!(
            matches!(endless, Some(Refusal::KeepsFlags(_))),
            "a loop without an end: {endless:?}"
        );
    }
}
