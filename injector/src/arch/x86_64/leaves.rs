//! Where a function leaves its own range by jumps: a compiler puts parts of a function elsewhere, and they are
//! reached so.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use heapattach_process::addr::RemoteAddr;

/// The targets of direct jumps out of this code, which lies at `at`.
pub fn jumps_out(code: &[u8], at: RemoteAddr) -> Vec<RemoteAddr> {
    let start = at.get();
    let own = start..start.saturating_add(code.len() as u64);
    let jumps = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter().filter(|one| {
        let is_jump = matches!(
            one.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        );
        is_jump && one.op0_kind() == OpKind::NearBranch64
    });
    let targets = jumps.map(|one| one.near_branch_target());
    targets.filter(|target| !own.contains(target)).map(RemoteAddr::new).collect()
}

/// Where this code calls functions, and jumps to from within it, by addresses of its own.
pub fn led_to(code: &[u8], at: RemoteAddr) -> Vec<RemoteAddr> {
    let calls = Decoder::with_ip(64, code, at.get(), DecoderOptions::NONE).into_iter();
    let calls = calls.filter(|one| {
        one.flow_control() == FlowControl::Call && one.op0_kind() == OpKind::NearBranch64
    });
    let mut all: Vec<_> = calls.map(|one| RemoteAddr::new(one.near_branch_target())).collect();
    all.extend(jumps_out(code, at));
    all
}

/// How often this code jumps to an address that it reckons, or reads by a register.
pub fn jumps_by_table(code: &[u8], at: RemoteAddr) -> usize {
    let all = Decoder::with_ip(64, code, at.get(), DecoderOptions::NONE).into_iter();
    let is_one = |one: &Instruction| {
        one.flow_control() == FlowControl::IndirectBranch && !one.is_ip_rel_memory_operand()
    };
    all.filter(is_one).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_that_leave_are_told_and_calls_are_not() {
        // je +0x20; jmp -2; call +0x100; jmp +0x40
        let code = b"\x0f\x84\x20\x00\x00\x00\xeb\xfe\xe8\x00\x01\x00\x00\xe9\x40\x00\x00\x00";
        let targets = jumps_out(code, RemoteAddr::new(0x1000));
        assert_eq!(targets, [RemoteAddr::new(0x1026), RemoteAddr::new(0x1052)]);
        assert_eq!(jumps_out(&[0xff; 40], RemoteAddr::new(u64::MAX - 3)), []);
    }

    #[test]
    fn calls_lead_to_functions_as_jumps_that_leave_do() {
        // call +0x100; call rax; jmp +0x40; jmp rax
        let code = b"\xe8\x00\x01\x00\x00\xff\xd0\xe9\x40\x00\x00\x00\xff\xe0";
        let at = RemoteAddr::new(0x1000);
        assert_eq!(led_to(code, at), [RemoteAddr::new(0x1105), RemoteAddr::new(0x104c)]);
        assert_eq!((jumps_by_table(code, at), jumps_by_table(&code[..12], at)), (1, 0));
        // jmp [rip+0x10]; jmp [rax+rcx*8]
        assert_eq!(jumps_by_table(b"\xff\x25\x10\x00\x00\x00\xff\x24\xc8", at), 1);
    }
}
