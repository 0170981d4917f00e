//! Branches as bytes: what one instruction of five bytes can reach.

use heapattach_process::addr::RemoteAddr;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// `jmp rel32`, the only bytes of an entry that ever change.
pub(crate) const JUMP_LEN: usize = 5;

/// A branch whose target lies beyond its 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{to} is out of reach of a 32-bit branch at {from}")]
pub struct TooFar {
    /// The branch.
    pub from: RemoteAddr,
    /// Where it should have led.
    pub to: RemoteAddr,
}

/// The rel32 field of a branch of `len` bytes at `from` that leads to `to`.
pub(crate) fn rel32(from: RemoteAddr, len: u64, to: RemoteAddr) -> Result<[u8; 4], TooFar> {
    let distance = to.get().wrapping_sub(from.get()).wrapping_sub(len).cast_signed();
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| TooFar { from, to })
}

/// Whether control never reaches the instruction after this one.
pub(crate) fn ends_a_block(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
    )
}

/// Whether this is a direct branch of any kind.
pub(crate) fn is_near_branch(instruction: &Instruction) -> bool {
    use iced_x86::OpKind::{NearBranch16, NearBranch32, NearBranch64};
    matches!(instruction.op0_kind(), NearBranch16 | NearBranch32 | NearBranch64)
}

/// The instructions of these bytes, which lie there.
pub fn decode(bytes: &[u8], at: RemoteAddr) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, at.get(), DecoderOptions::NONE)
}
