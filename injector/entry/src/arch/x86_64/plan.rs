//! What is written for one entry: the jump, and the trampoline that leads past it.

use std::ops::Range;

use iced_x86::{BlockEncoder, BlockEncoderOptions, Code, IcedError, Instruction, InstructionBlock};

use super::{
    bypass::Callee,
    jump::{JUMP_LEN, TooFar, decode, ends_a_block, is_near_branch, rel32},
    window::Window,
};
use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};

/// Room that is enough for any trampoline [`EntryPlan::relocate`] makes.
pub const TRAMPOLINE_MAX: usize = 128;

/// Builds the tables that instructions are read and moved by, unless they are there: a process that forks others which
/// need them has them once for all.
pub fn build_tables() {
    /// A jump, so that a branch is read, and one is made.
    const JUMP: [u8; 5] = [0xe9, 0, 0, 0, 0];
    let instructions: Vec<_> = decode(&JUMP, RemoteAddr::new(0x1000)).iter().collect();
    let block = InstructionBlock::new(&instructions, 0x2000);
    let _ = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE);
}

/// How one function is hooked at its entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPlan {
    entry: ImageAddr,
    window: Window,
    /// Targets of branches in the window that lead to hooked functions.
    leads: Vec<(ImageAddr, Callee)>,
    is_called_directly: bool,
}

/// Why no trampoline could be made at the place given.
#[derive(Debug, thiserror::Error)]
#[error("the first instructions of the function at {entry} cannot be moved to {to}")]
pub struct RelocateError {
    entry: RemoteAddr,
    to: RemoteAddr,
    #[source]
    source: IcedError,
}

impl EntryPlan {
    pub(crate) fn new(
        entry: ImageAddr,
        window: Window,
        leads: Vec<(ImageAddr, Callee)>,
        is_called_directly: bool,
    ) -> Self {
        Self { entry, window, leads, is_called_directly }
    }

    /// Whether a direct branch of its own module enters the hook: such a caller may have been compiled with
    /// the function before it, and count on a register that the function leaves alone. Every other
    /// caller knows the calling convention alone.
    pub fn is_called_directly(&self) -> bool {
        self.is_called_directly
    }

    /// The function, as the list of hooked functions gave it.
    pub fn entry(&self) -> ImageAddr {
        self.entry
    }

    /// Where the file states the window: behind an endbr64, else at the entry itself.
    pub fn window(&self) -> Range<ImageAddr> {
        let start = self.window.start().get();
        ImageAddr::new(start)..ImageAddr::new(start + self.window.bytes().len() as u64)
    }

    /// Where the loader put the window; the jump is written to its start.
    pub fn window_at(&self, bias: Bias) -> Range<RemoteAddr> {
        let window = self.window();
        bias.place(window.start)..bias.place(window.end)
    }

    /// The file's bytes of the whole window. Memory that differs belongs to a uprobe, a debugger or
    /// another patcher, and must be left alone.
    pub fn window_bytes(&self) -> &[u8] {
        self.window.bytes()
    }

    /// The bytes that [`Self::patch`] replaces.
    pub fn old(&self) -> [u8; JUMP_LEN] {
        let mut old = [0; JUMP_LEN];
        old.copy_from_slice(&self.window.bytes()[..JUMP_LEN]);
        old
    }

    /// The bytes for the start of the window: a jump to `hook`.
    ///
    /// # Errors
    /// When `hook` is not within 2 GiB.
    pub fn patch(&self, bias: Bias, hook: RemoteAddr) -> Result<[u8; JUMP_LEN], TooFar> {
        let [a, b, c, d] = rel32(bias.place(self.window.start()), JUMP_LEN as u64, hook)?;
        Ok([0xe9, a, b, c, d])
    }

    /// The code for `trampoline`: what the entry did before it was patched.
    ///
    /// `past` names the trampoline of a function that is patched as well, for a window that itself
    /// branches to one (mimalloc's `free` is nothing but `jmp mi_free`): the moved branch must lead
    /// past that hook, else one call is counted twice. `None` leaves the branch as it is.
    ///
    /// # Errors
    /// When an operand or a branch of the window cannot be stated from there.
    pub fn relocate(
        &self,
        bias: Bias,
        trampoline: RemoteAddr,
        past: impl Fn(&Callee) -> Option<RemoteAddr>,
    ) -> Result<Vec<u8>, RelocateError> {
        let old = self.window_at(bias);
        let mut code = Vec::new();
        for mut instruction in decode(self.window.moved(), old.start) {
            if is_near_branch(&instruction) {
                let target = bias.unplace(RemoteAddr::new(instruction.near_branch_target()));
                let lead = self.leads.iter().find(|(address, _)| *address == target);
                if let Some(past) = lead.and_then(|(_, callee)| past(callee)) {
                    instruction.set_near_branch64(past.get());
                }
            }
            code.push(instruction);
        }
        let error =
            |source| RelocateError { entry: bias.place(self.entry), to: trampoline, source };
        if code.last().is_none_or(|last| !ends_a_block(last)) {
            code.push(Instruction::with_branch(Code::Jmp_rel32_64, old.end.get()).map_err(error)?);
        }
        let block = InstructionBlock::new(&code, trampoline.get());
        let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::NONE).map_err(error)?;
        debug_assert!(encoded.code_buffer.len() <= TRAMPOLINE_MAX);
        Ok(encoded.code_buffer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{CODE, Model, at};

    const GIB: u64 = 1 << 30;

    fn plan(code: &[u8]) -> Option<EntryPlan> {
        let window = Model::default().exports(0, code).window(0).ok()?;
        Some(EntryPlan::new(at(0), window, Vec::new(), true))
    }

    fn relocate(code: &[u8], to: u64) -> Result<Vec<u8>, RelocateError> {
        plan(code).unwrap().relocate(Bias::default(), RemoteAddr::new(to), |_| None)
    }

    #[test]
    fn the_jump_to_the_hook_is_five_bytes_behind_the_endbr64() {
        let plan = plan(b"\xf3\x0f\x1e\xfa\x90\x90\x90\x90\x90\xc3").unwrap();
        let bias = Bias::new(0x7f00_0000_0000);
        let jump_end = bias.place(at(9));
        assert_eq!(plan.patch(bias, jump_end.offset(0x1234)), Ok([0xe9, 0x34, 0x12, 0, 0]));
        assert_eq!(plan.patch(bias, jump_end), Ok([0xe9, 0, 0, 0, 0]));
        let last = jump_end.offset(2 * GIB - 1);
        assert_eq!(plan.patch(bias, last), Ok([0xe9, 0xff, 0xff, 0xff, 0x7f]));
        let from = bias.place(at(4));
        let too_far = TooFar { from, to: last.offset(1) };
        assert_eq!(plan.patch(bias, too_far.to), Err(too_far));
    }

    #[test]
    fn a_trampoline_goes_on_behind_the_window() {
        let code = relocate(b"\x41\x54\x55\x53\x48\x89\xfb\xc3", CODE + 0x1000).unwrap();
        assert_eq!(code, b"\x41\x54\x55\x53\x48\x89\xfb\xe9\xfb\xef\xff\xff");
    }

    #[test]
    fn a_trampoline_that_is_far_away_jumps_by_an_address() {
        let code = relocate(b"\x41\x54\x55\x53\x48\x89\xfb\xc3", CODE + 8 * GIB).unwrap();
        assert_eq!(&code[..9], b"\x41\x54\x55\x53\x48\x89\xfb\xff\x25");
        assert_eq!(&code[code.len() - 8..], (CODE + 7).to_le_bytes());
    }

    #[test]
    fn rip_operands_and_short_branches_are_stated_anew() {
        // cmpb $0,0x100(%rip); je +0x10.
        let code = relocate(b"\x80\x3d\x00\x01\x00\x00\x00\x74\x10\xc3", CODE + 0x1000).unwrap();
        assert_eq!(&code[..7], b"\x80\x3d\x00\xf1\xff\xff\x00");
        let code = relocate(b"\x48\x85\xff\x74\x10\xc3", CODE + 0x1000).unwrap();
        assert_eq!(&code[..9], b"\x48\x85\xff\x0f\x84\x0c\xf0\xff\xff", "je, now with 32 bits");
    }

    #[test]
    fn an_operand_out_of_reach_is_an_error() {
        let plan = plan(b"\x80\x3d\x00\x01\x00\x00\x00\x74\x10\xc3").unwrap();
        let bias = Bias::new(0x7f00_0000_0000);
        let error = plan.relocate(bias, bias.place(at(8 * GIB)), |_| None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the first instructions of the function at 0x7f0000010000 cannot be moved to \
             0x7f0200010000"
        );
    }

    #[test]
    fn a_loop_of_the_window_stays_in_the_trampoline() {
        // L: dec %rdi; jne L; ret.
        let code = relocate(b"\x48\xff\xcf\x75\xfb\xc3", CODE + 0x1000).unwrap();
        assert_eq!(&code[..5], b"\x48\xff\xcf\x75\xfb");
    }

    proptest! {
        #[test]
        fn no_trampoline_is_larger_than_its_room(
            prologue in prop::collection::vec(prop::sample::select(vec![
                &b"\x74\x10"[..], b"\x0f\x84\x00\x01\x00\x00", b"\x55", b"\x66\x74\x10", b"\x48\x89\xf8",
                b"\xeb\x10", b"\x48\xc7\x84\x24\x00\x00\x00\x00\x00\x00\x00\x00",
                b"\x64\x67\xf0\x48\x81\x84\x24\x00\x00\x00\x00\x00\x00\x00\x00",
            ]), 5),
            far in any::<bool>(),
        ) {
            let code = [&prologue.concat()[..], &[0x90; 15]].concat();
            if let Some(plan) = plan(&code) {
                let to = if far { CODE + 8 * GIB } else { CODE + 0x10_0000 };
                let code = plan.relocate(Bias::default(), RemoteAddr::new(to), |_| None);
                prop_assert!(code.unwrap().len() <= TRAMPOLINE_MAX);
            }
        }
    }
}
