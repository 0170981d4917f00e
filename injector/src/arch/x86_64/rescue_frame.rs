//! The frame that saves a thread whose tracer was killed: as the kernel lays one down for a signal.

use super::{Activity, Registers, activity, processor::cpuid};
use crate::arch::SignalMask;
use heapattach_process::addr::RemoteAddr;

/// The tile registers among the parts of the vector state.
pub(super) const TILES: u64 = 3 << 17;

/// The signal frame that puts `saved`, `mask` and the vector state back when the kernel returns
/// from it; it lies at `at`, which is also the stack pointer to make the call with.
///
/// It is used only if our tracing process dies in the middle, when no process is left to let the
/// kernel restart the interrupted call: so it is restarted by hand, and a call with a restart
/// block (sigreturn forgets those) ends with EINTR.
pub fn rescue_frame(
    saved: &Registers,
    mask: SignalMask,
    vector_state: &[u8],
    at: RemoteAddr,
) -> Vec<u8> {
    const CONTEXT: usize = 304;
    const UC_FP_XSTATE: u64 = 1;
    const UC_SIGCONTEXT_SS: u64 = 2;
    const UC_STRICT_RESTORE_SS: u64 = 4;
    const NO_SUCH_STACK_MODE: u64 = 0x55;

    let (rax, rip) = match activity(saved) {
        Activity::Restarts => (saved.orig_rax, saved.rip.wrapping_sub(2)),
        Activity::RestartBlock => ((-i64::from(libc::EINTR)).cast_unsigned(), saved.rip),
        Activity::User | Activity::Interrupted => (saved.rax, saved.rip),
    };
    let vector = signal_vector_state(vector_state);
    // XSAVE areas are aligned to 64 bytes.
    let vector_at = (at.get() + CONTEXT as u64).next_multiple_of(64);
    let (flags, vector_pointer) = match &vector {
        Some(_) => (UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS, vector_at),
        None => (UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS, 0),
    };
    let selectors = (saved.cs & 0xffff) | (saved.ss & 0xffff) << 48;
    let words: [u64; 38] = [
        flags,
        0,
        // The alternate stack: a mode the kernel refuses leaves the thread's own one alone.
        0,
        NO_SUCH_STACK_MODE,
        0,
        saved.r8,
        saved.r9,
        saved.r10,
        saved.r11,
        saved.r12,
        saved.r13,
        saved.r14,
        saved.r15,
        saved.rdi,
        saved.rsi,
        saved.rbp,
        saved.rbx,
        saved.rdx,
        rax,
        saved.rcx,
        saved.rsp,
        rip,
        saved.eflags,
        selectors,
        0,
        0,
        0,
        0,
        vector_pointer,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        mask,
    ];
    let mut frame: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    debug_assert_eq!(frame.len(), CONTEXT);
    if let Some(vector) = vector {
        frame.resize(usize::try_from(vector_at - at.get()).unwrap_or(CONTEXT), 0);
        frame.extend_from_slice(&vector);
    }
    frame
}

/// Where a frame has words that the kernel neither reads nor writes back.
pub const FRAME_FREE: usize = 232;

/// What a rescue frame without vector state takes, aligned, with the word in front of the next one.
pub const PLAIN_FRAME: u64 = 320;

/// The most a rescue frame takes.
pub const RESCUE_FRAME_LIMIT: u64 = 16 << 10;

/// The vector state as a signal frame wants it: with the marks of its extended form, and without
/// the tile registers, which need more room than the kernel grants every process.
fn signal_vector_state(state: &[u8]) -> Option<Vec<u8>> {
    const LEGACY: usize = 512;
    const HEADER_END: usize = 576;
    const SOFTWARE: usize = 464;
    const MAGIC1: u32 = 0x4650_5853;
    const MAGIC2: u32 = 0x4650_5845;

    if state.len() < HEADER_END {
        return state.get(..LEGACY).map(<[u8]>::to_vec);
    }
    let word = |at: usize| Some(u64::from_le_bytes(*state.get(at..)?.first_chunk()?));
    let features = word(SOFTWARE)? & !TILES;
    let size = vector_state_size(features).min(state.len());
    let mut frame = state.get(..size)?.to_vec();
    let in_use = word(LEGACY)? & !TILES;
    frame[LEGACY..LEGACY + 8].copy_from_slice(&in_use.to_le_bytes());
    let size32 = u32::try_from(size).ok()?;
    frame[SOFTWARE..SOFTWARE + 4].copy_from_slice(&MAGIC1.to_le_bytes());
    frame[SOFTWARE + 4..SOFTWARE + 8].copy_from_slice(&(size32 + 4).to_le_bytes());
    frame[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&features.to_le_bytes());
    frame[SOFTWARE + 16..SOFTWARE + 20].copy_from_slice(&size32.to_le_bytes());
    frame.extend_from_slice(&MAGIC2.to_le_bytes());
    Some(frame)
}

/// How long the standard form of these state components is.
pub(super) fn vector_state_size(features: u64) -> usize {
    const STATE_LEAF: u32 = 0xd;
    let extended = (2..63_u32).filter(|bit| features & 1 << bit != 0);
    let ends = extended.map(|bit| {
        let leaf = cpuid(STATE_LEAF, bit);
        (leaf.ebx + leaf.eax) as usize
    });
    ends.fold(576, usize::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescue_frame_restarts_by_hand_what_it_can() {
        let interrupted = super::super::tests::at(100, -512, 7);
        let frame = rescue_frame(&interrupted, 0xabcd, &[], RemoteAddr::new(0x1000));
        let word = |i: usize| u64::from_le_bytes(*frame[i * 8..].first_chunk().unwrap());
        assert_eq!((word(18), word(21), word(37)), (7, 98, 0xabcd));
    }
}
