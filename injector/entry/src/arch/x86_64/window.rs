//! The window of an entry: the shortest run of whole instructions with room for the jump.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use super::jump::{JUMP_LEN, ends_a_block};
use crate::{Refusal, function_ranges::FunctionRanges, image::Image};
use heapattach_process::addr::ImageAddr;

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The bytes the longest window can have: four of whole instructions and one more instruction.
const WINDOW_MAX: usize = 19;

/// A window cut out of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    start: ImageAddr,
    bytes: [u8; WINDOW_MAX],
    len: u8,
    /// Bytes of instructions; after a closing branch the rest is padding.
    moved: u8,
}

impl Window {
    /// Cuts the window of the function that begins at `entry`.
    pub(crate) fn cut(
        image: &Image<'_>,
        functions: &FunctionRanges<'_, '_>,
        entry: u64,
    ) -> Result<Self, Refusal> {
        let extent = functions.containing(entry).ok_or(Refusal::NoExtent)?;
        if extent.start != entry {
            return Err(Refusal::NotAtStart(ImageAddr::new(extent.start)));
        }
        let code = image.code_from(entry).ok_or(Refusal::Undecodable(ImageAddr::new(entry)))?;
        let skipped = if code.starts_with(&ENDBR64) { ENDBR64.len() } else { 0 };
        let start = entry + skipped as u64;
        let code = &code[skipped..];
        let (moved, closed) = whole_instructions(code, start, extent.end)?;
        // Behind a closing branch nothing runs, so what is missing may be taken from the padding.
        let len = moved.max(JUMP_LEN);
        if len > moved {
            let free = |at| at < extent.end || functions.containing(at).is_none();
            let padding = code.get(moved..len).ok_or(Refusal::TooShort)?;
            let unowned = (start + moved as u64..start + len as u64).all(free);
            if !closed || !unowned || !is_padding(padding, &code[moved..]) {
                return Err(Refusal::EndsEarly(ImageAddr::new(start + moved as u64)));
            }
        }
        let mut bytes = [0; WINDOW_MAX];
        bytes[..len].copy_from_slice(&code[..len]);
        let byte = |len| u8::try_from(len).expect("no window is longer than WINDOW_MAX");
        Ok(Self { start: ImageAddr::new(start), bytes, len: byte(len), moved: byte(moved) })
    }

    /// The addresses between the first byte and the last.
    pub(crate) fn inside(&self) -> Range<u64> {
        self.start.get() + 1..self.start.get() + self.bytes().len() as u64
    }

    pub(crate) fn start(&self) -> ImageAddr {
        self.start
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) fn moved(&self) -> &[u8] {
        &self.bytes[..usize::from(self.moved)]
    }
}

/// The length of the first instructions of `code` that together have room for the jump, or that end
/// with a closing branch; and whether they do.
fn whole_instructions(code: &[u8], start: u64, end: u64) -> Result<(usize, bool), Refusal> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    while decoder.position() < JUMP_LEN {
        let at = decoder.ip();
        if at >= end {
            return Err(Refusal::TooShort);
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable(ImageAddr::new(at)));
        }
        if decoder.ip() > end {
            return Err(Refusal::TooShort);
        }
        if !can_move(&instruction) {
            return Err(Refusal::Immovable(ImageAddr::new(at)));
        }
        if ends_a_block(&instruction) {
            return Ok((decoder.position(), true));
        }
    }
    Ok((decoder.position(), false))
}

fn can_move(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::Next => true,
        // loop and jrcxz have no form with 32 bits.
        FlowControl::ConditionalBranch => instruction.is_jcc_short_or_near(),
        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => {
            true
        }
        // A call leaves the trampoline's address on the stack; a syscall stops there; the others are
        // a debugger's trap.
        _ => false,
    }
}

/// Whether `wanted`, a part of `code`, is what compilers and linkers put between functions.
fn is_padding(wanted: &[u8], code: &[u8]) -> bool {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.position() < wanted.len() {
        if !matches!(decoder.decode().mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CODE, Model, at};

    fn refusal(code: &[u8]) -> Option<Refusal> {
        Model::default().exports(0, code).window(0).err()
    }

    #[test]
    fn a_window_is_the_first_whole_instructions_with_room_for_a_jump() {
        // push %r12; push %rbp; push %rbx; mov %rdi,%rbx; ret: glibc's malloc begins like that.
        let model = Model::default().exports(0, b"\x41\x54\x55\x53\x48\x89\xfb\xc3");
        let window = model.window(0).unwrap();
        assert_eq!(window.bytes(), b"\x41\x54\x55\x53\x48\x89\xfb");
        assert_eq!(window.inside(), CODE + 1..CODE + 7);
    }

    #[test]
    fn an_endbr64_stays_in_front_of_the_window() {
        let code = b"\xf3\x0f\x1e\xfa\xb8\x01\x00\x00\x00\xc3";
        let model = Model::default().exports(0, code);
        assert_eq!(model.window(0).unwrap().start(), at(4));
    }

    #[test]
    fn what_cannot_be_moved_is_refused() {
        let nops = [0x90; 5];
        let with = |code: &[u8]| refusal(&[code, &nops].concat());
        assert_eq!(with(b"\xe8\x00\x00\x10\x00"), Some(Refusal::Immovable(at(0))), "call");
        assert_eq!(with(b"\x90\xff\xd0"), Some(Refusal::Immovable(at(1))), "call *%rax");
        assert_eq!(with(b"\x90\x90\xcc"), Some(Refusal::Immovable(at(2))), "int3");
        assert_eq!(with(b"\x0f\x05"), Some(Refusal::Immovable(at(0))), "syscall");
        assert_eq!(with(b"\x0f\x0b"), Some(Refusal::Immovable(at(0))), "ud2");
        assert_eq!(with(b"\xe3\x40"), Some(Refusal::Immovable(at(0))), "jrcxz");
        assert_eq!(with(b"\xe2\x40"), Some(Refusal::Immovable(at(0))), "loop");
        assert_eq!(with(b"\x90\x06"), Some(Refusal::Undecodable(at(1))), "push %es");
    }

    #[test]
    fn conditional_jumps_and_a_closing_jump_are_fine() {
        assert_eq!(refusal(b"\x48\x85\xff\x74\x20\x90\xc3"), None, "test; je");
        assert_eq!(refusal(b"\x48\x85\xff\x0f\x84\x00\x10\x00\x00\xc3"), None, "test; je rel32");
        assert_eq!(refusal(b"\xe9\x00\x10\x00\x00"), None, "jmp rel32");
        assert_eq!(refusal(b"\x31\xc0\x31\xd2\xc3"), None, "xor; xor; ret");
        assert_eq!(refusal(b"\xff\x25\x00\x10\x00\x00"), None, "jmp *slot(%rip)");
    }

    #[test]
    fn a_function_must_have_room_or_padding_behind_it() {
        assert_eq!(refusal(b"\x90\x90\x90\x90"), Some(Refusal::TooShort), "runs on");
        let cut = Model::default().exports(0, b"\x90\x90\x90\xb8").code(4, &[0; 4]);
        assert_eq!(cut.window(0).err(), Some(Refusal::TooShort), "cut instruction");
        assert_eq!(refusal(b"\xc3"), Some(Refusal::TooShort), "the segment ends");
        let short = Model::default().exports(0, b"\x31\xc0\xc3");
        assert_eq!(short.code(3, b"\x66\x90\x90\x90").window(0).err(), None, "padding");
        let short = Model::default().exports(0, b"\x31\xc0\xc3");
        let end = Some(Refusal::EndsEarly(at(3)));
        assert_eq!(short.code(3, b"\x90\x55\x55\x55").window(0).err(), end, "code of nobody");
        let short = Model::default().exports(0, b"\x31\xc0\xc3");
        assert_eq!(short.function(4, b"\x90\x90\x90").window(0).err(), end, "another function");
    }

    #[test]
    fn a_function_of_unknown_extent_or_inside_another_is_refused() {
        let model = Model::default().exports(0, &[0x90; 64]);
        assert_eq!(model.window(8).err(), Some(Refusal::NotAtStart(at(0))));
        assert_eq!(model.window(0x1000).err(), Some(Refusal::NoExtent));
    }
}
