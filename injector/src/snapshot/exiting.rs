//! What means nothing any more on the stack of a thread that ends its program: the frames of `exit`,
//! and of all that it calls. What main's last call left there would hold blocks that nothing can
//! reach. The registers that calls keep do mean something: the caller of `exit` may be a function that
//! its own caller expects to return.
//!
//! Anything that cannot be followed leaves the stack as it is, where every word counts.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};
use std::sync::atomic::AtomicU64;

use crate::{
    arch::{self, Registers},
    unwind::information,
};
use crate::{snapshot::sanitizer, trace::target::Target};
use heapattach_process::{
    addr::RemoteAddr,
    image::{Image, images},
    memory::Memory,
    proc::maps::Mapping,
};

/// The functions by which programs end, the last of which runs no handlers of the program's.
const NAMES: [&[u8]; 4] = [b"exit", b"quick_exit", b"_exit", b"_Exit"];
/// Handlers do not end the program from further below.
const DEEPEST: usize = 32;
/// Unwind information that is read for it.
const BYTES: u64 = 64 << 20;

/// Where these functions begin.
#[derive(Clone, Debug, Default)]
pub struct Exits(Vec<u64>);

/// A thread that ends its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exiting {
    /// From here on its stack belongs to the function that has called `exit`,
    pub(super) alive_from: u64,
    /// who had these values in the registers that calls keep.
    pub(super) kept: [u64; 6],
}

impl Exits {
    /// Those of a program.
    pub fn of(target: &Target) -> Self {
        let found = sanitizer::functions(target, &NAMES);
        Self(found.into_iter().flatten().map(RemoteAddr::get).collect())
    }
}

/// Where a function is, and what its caller keeps in registers.
struct Frame {
    code: u64,
    stack: u64,
    kept: [u64; 6],
}

impl Frame {
    fn of(registers: &Registers) -> Self {
        Self {
            code: arch::program_counter(registers).get(),
            stack: arch::stack_pointer(registers).get(),
            kept: arch::kept(registers),
        }
    }

    fn register(&self, register: Register) -> Option<u64> {
        if register.0 == arch::DWARF_STACK_POINTER {
            return Some(self.stack);
        }
        let index = arch::DWARF_KEPT.iter().position(|&kept| kept == register.0)?;
        self.kept.get(index).copied()
    }
}

/// Where it lies, and its bytes.
type Section = (RemoteAddr, Vec<u8>);

/// What stacks are followed by.
pub(super) struct Stacks<'a> {
    memory: &'a Memory,
    exits: &'a Exits,
    images: Vec<Image>,
    /// By image: its unwind information, and where it lies.
    read: Vec<(RemoteAddr, Option<Section>)>,
    left: AtomicU64,
}

impl<'a> Stacks<'a> {
    /// Of all that is mapped.
    pub(super) fn new(memory: &'a Memory, maps: &[Mapping<'_>], exits: &'a Exits) -> Self {
        let images = if exits.0.is_empty() { Vec::new() } else { images(memory, maps) };
        Self { memory, exits, images, read: Vec::new(), left: AtomicU64::new(BYTES) }
    }

    /// Whether and from where a thread with these registers ends the program.
    pub(super) fn exiting(&mut self, registers: &Registers) -> Option<Exiting> {
        let mut frame = Frame::of(registers);
        let mut found = None;
        for depth in 0..DEEPEST {
            let Some(function) = self.step(&mut frame, depth == 0) else { break };
            if self.exits.0.contains(&function) {
                found = Some(Exiting { alive_from: frame.stack, kept: frame.kept });
            }
        }
        found
    }

    /// Goes on to the caller; answers where the function left begins.
    fn step(&mut self, frame: &mut Frame, is_innermost: bool) -> Option<u64> {
        let lookup = frame.code.checked_sub(u64::from(!is_innermost))?;
        let memory = self.memory;
        let (at, bytes) = self.information(lookup)?;
        let section = EhFrame::new(bytes, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(at.get());
        let entry = section.fde_for_address(&bases, lookup, EhFrame::cie_from_offset).ok()?;
        if entry.is_signal_trampoline() {
            return None;
        }
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &bases, &mut context, lookup).ok()?;
        let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
        let above = frame.register(register)?.checked_add_signed(offset)?;
        if above <= frame.stack {
            return None;
        }
        let word = |at: u64| memory.word(RemoteAddr::new(at)).ok();
        let mut kept = frame.kept;
        for (value, &number) in kept.iter_mut().zip(&arch::DWARF_KEPT) {
            *value = match row.register(Register(number)) {
                Some(RegisterRule::Offset(offset)) => word(above.checked_add_signed(offset)?)?,
                Some(RegisterRule::Register(other)) => frame.register(other)?,
                None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => *value,
                _ => return None,
            };
        }
        *frame = Frame { code: word(above.checked_sub(8)?)?, stack: above, kept };
        Some(entry.initial_address())
    }

    /// The unwind information of the code at `lookup`.
    fn information(&mut self, lookup: u64) -> Option<(RemoteAddr, &[u8])> {
        let at = RemoteAddr::new(lookup);
        let image = self.images.iter().find(|image| image.code.contains(&at))?;
        let known = self.read.iter().position(|(start, _)| *start == image.start);
        let index = known.unwrap_or_else(|| {
            self.read.push((image.start, information(self.memory, image, &self.left)));
            self.read.len() - 1
        });
        let (at, bytes) = self.read.get(index)?.1.as_ref()?;
        Some((*at, bytes))
    }
}
