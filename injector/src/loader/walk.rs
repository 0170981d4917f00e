//! Walking the stack of a stopped thread by the unwind information of its modules, frame by frame,
//! to tell calls under way from words that a former call left behind. Slow and exact; the hooks
//! have ways of their own.

use std::{collections::HashMap, ops::ControlFlow, rc::Rc};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection,
};

use crate::arch;
use heapattach_process::{
    addr::RemoteAddr,
    image::{Image, images},
    little_endian::u64_at,
    memory::Memory,
    proc::maps::Mapping,
};

/// The registers that calls keep, as DWARF numbers them.
const KEPT: [u16; 6] = arch::DWARF_KEPT;

const STACK_POINTER: Register = Register(arch::DWARF_STACK_POINTER);
const RETURN_ADDRESS: Register = Register(arch::DWARF_RETURN_ADDRESS);

/// Deeper stacks end here, as one whose rest is not known.
const FRAMES: usize = 4096;

/// No honest module has more unwind information.
const INFORMATION: u64 = 64 << 20;

/// A thread's stack, from `at` up.
#[derive(Debug)]
pub struct Stack {
    /// Where its first byte lies.
    pub at: RemoteAddr,
    /// What was read of it.
    pub bytes: Vec<u8>,
}

impl Stack {
    fn word(&self, at: u64) -> Option<u64> {
        u64_at(&self.bytes, usize::try_from(at.checked_sub(self.at.get())?).ok()?)
    }
}

/// A frame: where it is, where its stack is, and the registers of [`KEPT`].
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// The program counter, or a return address.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// Each of them; `None` if not known.
    pub kept: [Option<u64>; 6],
    /// `pc` is where it will go on, not behind a call.
    pub is_exact: bool,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// At the first function of the thread.
    Bottom,
    /// It is not known what lies above this address.
    Unknown(u64),
    /// The visitor has seen enough.
    Enough,
}

/// What a frame is.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its program counter.
    pub pc: u64,
    /// A signal handler returns there.
    pub is_signal: bool,
}

/// Walks.
pub struct Walker<'m> {
    memory: &'m Memory,
    images: Vec<Image>,
    sections: HashMap<RemoteAddr, Option<Rc<Vec<u8>>>>,
}

impl<'m> Walker<'m> {
    /// A walker for what is mapped now.
    pub fn new(memory: &'m Memory, maps: &[Mapping<'_>]) -> Self {
        Self { memory, images: images(memory, maps), sections: HashMap::new() }
    }

    /// Shows every frame from `frame` on to `visit`. A signal's is the last: what it interrupted
    /// lies above, on whatever stack.
    pub fn walk(
        &mut self,
        stack: &Stack,
        mut frame: Frame,
        mut visit: impl FnMut(Seen) -> ControlFlow<()>,
    ) -> End {
        for _ in 0..FRAMES {
            let step = self.step(stack, &frame);
            let is_signal = matches!(step, Some(Step::Signal));
            if visit(Seen { pc: frame.pc, is_signal }).is_break() {
                return End::Enough;
            }
            match step {
                // Stacks grow down: a walk the other way goes in circles.
                Some(Step::Caller(caller)) if caller.sp > frame.sp => frame = caller,
                Some(Step::Bottom) => return End::Bottom,
                _ => break,
            }
        }
        End::Unknown(frame.sp)
    }

    /// What called `frame`; `None` if that is not known.
    fn step(&mut self, stack: &Stack, frame: &Frame) -> Option<Step> {
        // A return address may lie behind the end of its function.
        let at = if frame.is_exact { frame.pc } else { frame.pc.checked_sub(1)? };
        let image = self.images.iter().find(|i| i.code.contains(&RemoteAddr::new(at)))?;
        let (mapped, text) = (image.mapped?, image.code.start.get());
        let memory = self.memory;
        let section = self.sections.entry(mapped.header).or_insert_with(|| {
            let length = mapped.end.offset_from(mapped.header).filter(|&n| n <= INFORMATION)?;
            memory.read_vec(mapped.header, usize::try_from(length).ok()?).ok().map(Rc::new)
        });
        let section = Rc::clone(section.as_ref()?);
        let rules = match rules(&section, mapped.header.get(), text, at)? {
            Rule::Signal => return Some(Step::Signal),
            Rule::Call(rules) => rules,
        };
        let (base, offset) = rules.cfa;
        let base = match base {
            STACK_POINTER => frame.sp,
            other => frame.kept[KEPT.iter().position(|kept| *kept == other.0)?]?,
        };
        let cfa = base.wrapping_add_signed(offset);
        let restore = |rule: &RegisterRule<usize>, same: Option<u64>| match *rule {
            RegisterRule::Offset(offset) => stack.word(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::SameValue => same,
            _ => None,
        };
        let pc = match &rules.back {
            RegisterRule::Undefined => 0,
            rule => restore(rule, None)?,
        };
        if pc == 0 {
            return Some(Step::Bottom);
        }
        let kept = std::array::from_fn(|i| restore(&rules.kept[i], frame.kept[i]));
        Some(Step::Caller(Frame { pc, sp: cfa, kept, is_exact: false }))
    }
}

/// One step up.
enum Step {
    Caller(Frame),
    Bottom,
    Signal,
}

/// What the unwind information says of one place.
enum Rule {
    /// Signal handlers return there.
    Signal,
    /// How to find the caller.
    Call(Rules),
}

struct Rules {
    cfa: (Register, i64),
    back: RegisterRule<usize>,
    kept: [RegisterRule<usize>; 6],
}

/// Looks it up in the bytes from the table on; `None` if there is nothing, or something that takes
/// an expression.
fn rules(section: &[u8], header: u64, text: u64, at: u64) -> Option<Rule> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(header).set_text(text);
    let parsed = EhFrameHdr::new(section, LittleEndian).parse(&bases, 8).ok()?;
    let frames = match parsed.eh_frame_ptr() {
        gimli::Pointer::Direct(address) => address,
        gimli::Pointer::Indirect(_) => return None,
    };
    let bytes = section.get(usize::try_from(frames.checked_sub(header)?).ok()?..)?;
    let bases = bases.set_eh_frame(frames);
    let information = EhFrame::new(bytes, LittleEndian);
    let table = parsed.table()?;
    let fde = table.fde_for_address(&information, &bases, at, EhFrame::cie_from_offset).ok()?;
    if fde.is_signal_trampoline() {
        return Some(Rule::Signal);
    }
    let mut context = UnwindContext::new();
    let row = fde.unwind_info_for_address(&information, &bases, &mut context, at).ok()?;
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else { return None };
    let rule = |register| row.register(register).unwrap_or(RegisterRule::SameValue);
    Some(Rule::Call(Rules {
        cfa: (register, offset),
        back: rule(RETURN_ADDRESS),
        kept: KEPT.map(|number| rule(Register(number))),
    }))
}
