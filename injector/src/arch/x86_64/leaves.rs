//! Where a function leaves its own range by jumps: a compiler puts parts of a function elsewhere, and they are
//! reached so.

use iced_x86::{Decoder, DecoderOptions, FlowControl, OpKind};

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
}
