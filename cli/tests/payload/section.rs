//! The code by its instructions: what any x86-64 processor has, and nothing that a hook must not
//! touch.

use heapattach_abi::{
    image::Image,
    kind::{HookKind, MAX_HOOKS},
};
use heapattach_injector::attach::PayloadImage;
use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    Mnemonic, OpKind, Register,
};

use crate::placed::FILE;

/// What stays in the target is no more than that.
const MOST_BYTES: usize = 96 << 10;

pub fn section() -> Vec<u8> {
    PayloadImage::parse(FILE).expect("needs no relocation").text().to_vec()
}

/// All instructions: the hooks, then the slow paths up to the first address that code takes, where
/// the tables begin.
fn instructions(section: &[u8]) -> Vec<Instruction> {
    let image = Image::read(section).unwrap();
    let decode = |start: u32, end: usize| {
        let bytes = &section[start as usize..end];
        Decoder::with_ip(64, bytes, u64::from(start), DecoderOptions::NONE)
    };
    let mut found: Vec<_> = decode(image.hooks, image.control_cell as usize).into_iter().collect();
    let mut end = section.len() as u64;
    for instruction in &mut decode(image.text_len, section.len()) {
        if instruction.ip() >= end {
            break;
        }
        if instruction.is_ip_rel_memory_operand() {
            let taken = instruction.ip_rel_memory_address();
            assert!(taken < section.len() as u64, "{instruction:?} leads out of the payload");
            if taken >= u64::from(image.text_len) {
                end = end.min(taken);
            }
        }
        found.push(instruction);
    }
    assert!(end + 1024 > section.len() as u64, "{} bytes of tables", section.len() as u64 - end);
    found
}

#[test]
fn it_is_small_and_all_its_code_is_seen() {
    let section = section();
    assert!(section.len() < MOST_BYTES, "{} bytes", section.len());
    let found = instructions(&section);
    let begins = |target: u64| found.binary_search_by_key(&target, Instruction::ip).is_ok();
    for instruction in &found {
        let is_direct = instruction.op_kind(0) == OpKind::NearBranch64;
        let flow = instruction.flow_control();
        let is_ours = is_direct || instruction.mnemonic() == Mnemonic::Syscall;
        assert!(is_ours || flow != FlowControl::Call, "{:#x}: {instruction:?}", instruction.ip());
        if is_direct {
            let target = instruction.near_branch_target();
            assert!(begins(target), "{:#x}: {instruction:?}", instruction.ip());
        }
    }
    println!("{} bytes, {} instructions", section.len(), found.len());
}

#[test]
fn only_baseline_instructions_on_general_registers() {
    let mut info = InstructionInfoFactory::new();
    let (mut syscalls, mut claimed) = (0, [0; 2]);
    for instruction in instructions(&section()) {
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
                    | F::PAUSE
                    | F::MULTIBYTENOP
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
        let unfit =
            [Mnemonic::Pushfq, Mnemonic::Popfq, Mnemonic::Cld, Mnemonic::Std, Mnemonic::Div];
        assert!(!unfit.contains(&instruction.mnemonic()), "{at:#x}: {instruction:?}");
        assert!(!instruction.is_string_instruction(), "{at:#x}: {instruction:?}");
        // What only one thread changes is exchanged without a lock: its ring, and its memo.
        let claims = instruction.mnemonic() == Mnemonic::Cmpxchg;
        claimed[usize::from(instruction.has_lock_prefix())] += usize::from(claims);
        syscalls += usize::from(instruction.mnemonic() == Mnemonic::Syscall);
    }
    assert_eq!(
        syscalls, 6,
        "sigreturn, three to copy what may not be mapped, one to let others run, one to sleep"
    );
    assert!(claimed[1] > claimed[0], "without and with a lock: {claimed:?}");
}

#[test]
fn no_instruction_holds_an_address() {
    for instruction in instructions(&section()) {
        let memory = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let relative = instruction.memory_base() != Register::None
            || instruction.memory_index() != Register::None
            || instruction.segment_prefix() == Register::FS;
        assert!(!memory || relative, "{:#x}: {instruction:?}", instruction.ip());
    }
}

#[test]
fn sigreturn_is_the_code_by_which_unwinders_know_it() {
    let section = section();
    let at = Image::read(&section).unwrap().sigreturn as usize;
    assert_eq!(section[at - 1], 0x90);
    assert_eq!(section[at..at + 9], [0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05]);
}

#[test]
fn every_hook_begins_as_an_indirect_branch_may_expect() {
    let section = section();
    let image = Image::read(&section).unwrap();
    assert_ne!(image.brief, 0, "brief hooks are tested as such");
    for hook in 0..MAX_HOOKS {
        let at = image.hooks as usize + hook * image.hook_stride as usize;
        let brief =
            HookKind::of_hook(hook).filter(|kind| kind.has_brief()).map_or(0, |_| image.brief);
        for at in [at, at + brief as usize] {
            assert_eq!(section[at..at + 4], [0xf3, 0x0f, 0x1e, 0xfa], "hook {hook}");
        }
    }
}
