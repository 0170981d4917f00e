//! The code by its instructions: what any x86-64 processor has, and nothing that a hook must not
//! touch.

use heapattach_abi::image::Image;
use iced_x86::{CpuidFeature, Decoder, DecoderOptions, InstructionInfoFactory, Mnemonic};

use crate::placed::section;

#[test]
fn only_baseline_instructions_on_general_registers() {
    let section = section();
    let image = Image::read(section).unwrap();
    let code = &section[image.hooks as usize..image.control_cell as usize];
    let mut info = InstructionInfoFactory::new();
    let mut syscalls = 0;
    for instruction in Decoder::with_ip(64, code, u64::from(image.hooks), DecoderOptions::NONE) {
        let at = instruction.ip();
        assert!(!instruction.is_invalid(), "{at:#x}");
        for feature in instruction.cpuid_features() {
            use CpuidFeature as F;
            let baseline = matches!(
                feature,
                F::INTEL8086
                    | F::INTEL186
                    | F::INTEL286
                    | F::INTEL386
                    | F::INTEL486
                    | F::X64
                    | F::CMOV
                    | F::TSC
                    | F::CET_IBT
                    | F::SYSCALL
            );
            assert!(baseline, "{at:#x}: {instruction:?} needs {feature:?}");
        }
        for used in info.info(&instruction).used_registers() {
            let register = used.register();
            let general = register.is_gpr() || register.is_segment_register();
            assert!(general || register.is_ip(), "{at:#x}: {instruction:?} uses {register:?}");
        }
        let slow = [Mnemonic::Pushfq, Mnemonic::Popfq, Mnemonic::Cld, Mnemonic::Std, Mnemonic::Div];
        assert!(!slow.contains(&instruction.mnemonic()), "{at:#x}: {instruction:?}");
        let claims = instruction.mnemonic() == Mnemonic::Cmpxchg;
        assert!(!claims || instruction.has_lock_prefix(), "{at:#x}: {instruction:?}");
        syscalls += usize::from(instruction.mnemonic() == Mnemonic::Syscall);
    }
    assert_eq!(syscalls, 1, "that of sigreturn");
}

#[test]
fn sigreturn_is_the_code_by_which_unwinders_know_it() {
    let section = section();
    let at = Image::read(section).unwrap().sigreturn as usize;
    assert_eq!(section[at - 1], 0x90);
    assert_eq!(section[at..at + 9], [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05]);
}

#[test]
fn every_hook_begins_as_an_indirect_branch_may_expect() {
    let section = section();
    let image = Image::read(section).unwrap();
    for hook in 0..heapattach_abi::kind::MAX_HOOKS {
        let at = image.hooks as usize + hook * image.hook_stride as usize;
        assert_eq!(section[at..at + 4], [0xf3, 0x0f, 0x1e, 0xfa], "hook {hook}");
    }
}
