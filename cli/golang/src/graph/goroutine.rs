//! Goroutines: what each does, and the words of its stack that count.

use std::ops::Range;

use heapattach_census::Moment;

use super::layout::{Layout, Variables};

/// More goroutines no process has.
const MOST: u64 = 1 << 24;
/// Nor has one a larger stack.
const LARGEST_STACK: u64 = 1 << 30;
/// Calls of one stack that are told.
const MOST_CALLS: usize = 64;
/// Set while the garbage collector looks at it.
const SCANNED: u64 = 0x1000;

/// What a goroutine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// It could run.
    Runnable,
    /// It runs.
    Running,
    /// It is in a system call.
    Syscall,
    /// It waits.
    Waiting,
    /// It is stopped for a moment.
    Stopped,
}

impl Doing {
    fn of(status: u64) -> Option<Self> {
        match status & !SCANNED {
            1 => Some(Self::Runnable),
            2 => Some(Self::Running),
            3 => Some(Self::Syscall),
            4 | 10 => Some(Self::Waiting),
            8 | 9 => Some(Self::Stopped),
            _ => None,
        }
    }
}

/// A goroutine.
#[derive(Clone, Debug)]
pub struct Goroutine {
    /// Where the runtime's structure of it is.
    pub at: u64,
    /// Its number.
    pub id: u64,
    /// What it does.
    pub doing: Doing,
    /// The part of its stack that is in use.
    pub stack: Range<u64>,
    /// Bytes of its whole stack.
    pub stack_size: u64,
    /// Where it goes on, and the calls that led there: return addresses, from the innermost on.
    pub calls: Vec<Call>,
    /// The function that it began with.
    pub start: u64,
    /// The `go` statement that made it.
    pub made_by: u64,
    /// What it waits on, if that are channels: the first of the runtime's notes of it.
    pub waiting: u64,
    /// Since when it waits, in the clock of the runtime, or 0.
    pub since: u64,
    /// Pointers that the runtime's structure has besides.
    pub besides: [u64; 3],
    /// Registers of the thread that runs it.
    pub registers: Vec<u64>,
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where in the function it goes on.
    pub code: u64,
    /// Where its frame ends.
    pub end: u64,
}

impl Goroutine {
    /// All that are alive.
    pub fn all(moment: &Moment<'_>, layout: &Layout, variables: &Variables) -> Vec<Self> {
        let words = (moment.word(variables.allgs), moment.word(variables.allgs.wrapping_add(8)));
        let (Some(first), Some(count)) = words else { return Vec::new() };
        let all = (0..count.min(MOST))
            .map_while(|index| moment.word(first.checked_add(index.checked_mul(8)?)?));
        all.filter_map(|at| Self::read(moment, layout, at)).collect()
    }

    fn read(moment: &Moment<'_>, layout: &Layout, at: u64) -> Option<Self> {
        let fields = &layout.goroutine;
        let doing = Doing::of(fields.status.read(moment, at)?)?;
        let whole = fields.low.read(moment, at)?..fields.high.read(moment, at)?;
        let stack_size = whole.end.checked_sub(whole.start).filter(|size| *size < LARGEST_STACK)?;
        let machine = fields.machine.read(moment, at)?;
        let thread = fields.thread.read(moment, machine);
        let thread = moment
            .threads()
            .iter()
            .find(|one| doing == Doing::Running && u64::try_from(one.tid).ok() == thread);
        let parked = Place {
            sp: fields.sp.read(moment, at)?,
            pc: fields.pc.read(moment, at)?,
            bp: fields.bp.read(moment, at)?,
        };
        let place = match (doing, thread) {
            (Doing::Syscall, _) => {
                let (sp, pc) =
                    (fields.syscall_sp.read(moment, at)?, fields.syscall_pc.read(moment, at)?);
                if sp == 0 { parked } else { Place { sp, pc, bp: 0 } }
            }
            (Doing::Running, Some(thread)) if whole.contains(&thread.stack) => {
                Place { sp: thread.stack, pc: thread.code, bp: 0 }
            }
            // In the runtime, on the stack of its thread: it goes on where it left its own.
            (Doing::Running, Some(thread)) if is_system(moment, layout, machine, thread.stack) => {
                parked
            }
            // In a signal handler, or unknown.
            (Doing::Running, _) => Place { sp: whole.start, pc: 0, bp: 0 },
            (Doing::Runnable | Doing::Waiting | Doing::Stopped, _) => parked,
        };
        let sp = if whole.contains(&place.sp) { place.sp } else { whole.start };
        let besides = [fields.context, fields.deferred, fields.panicking];
        Some(Self {
            at,
            id: fields.id.read(moment, at)?,
            doing,
            stack: sp & !7..whole.end,
            stack_size,
            calls: calls(moment, place, &whole),
            start: fields.start_pc.read(moment, at)?,
            made_by: fields.go_pc.read(moment, at)?,
            waiting: fields.waiting.read(moment, at)?,
            since: fields.wait_since.read(moment, at)?,
            besides: besides.map(|field| field.read(moment, at).unwrap_or(0)),
            registers: thread.map(|thread| thread.registers.clone()).unwrap_or_default(),
        })
    }

    /// The calls from the one on whose frame has an address of the stack, outwards.
    pub fn calls_at(&self, at: u64) -> &[Call] {
        let first = self.calls.iter().position(|call| at < call.end);
        first.map_or(&[], |first| &self.calls[first..])
    }
}

/// Where a goroutine goes on.
#[derive(Clone, Copy)]
struct Place {
    sp: u64,
    pc: u64,
    bp: u64,
}

/// Whether an address lies in the stack of the thread itself.
fn is_system(moment: &Moment<'_>, layout: &Layout, machine: u64, sp: u64) -> bool {
    let fields = &layout.goroutine;
    let range = fields
        .system
        .read(moment, machine)
        .and_then(|own| Some(fields.low.read(moment, own)?..fields.high.read(moment, own)?));
    range.is_some_and(|range| range.contains(&sp))
}

/// Frames by their pointers: all of Go's functions keep them.
fn calls(moment: &Moment<'_>, place: Place, stack: &Range<u64>) -> Vec<Call> {
    let mut bp = place.bp;
    let mut code = place.pc;
    if bp == 0 && code != 0 {
        // The return address of a call that has no frame of its own is at the stack pointer, or the caller's
        // frame pointer is: one of the next words leads on.
        bp = next_frame(moment, place.sp, stack).unwrap_or(0);
    }
    let mut calls = Vec::new();
    while code != 0 && calls.len() < MOST_CALLS {
        let is_frame = bp & 7 == 0 && bp >= place.sp && stack.contains(&bp.wrapping_add(8));
        let end = if is_frame { bp.saturating_add(16) } else { stack.end };
        calls.push(Call { code, end });
        if !is_frame {
            break;
        }
        let (Some(next), Some(back)) = (moment.word(bp), moment.word(bp + 8)) else { break };
        if next != 0 && next <= bp {
            break;
        }
        (code, bp) = (back, next);
    }
    calls
}

/// The first word from the stack pointer on that leads up the stack, to where a frame pointer is.
fn next_frame(moment: &Moment<'_>, sp: u64, stack: &Range<u64>) -> Option<u64> {
    let mut at = sp & !7;
    for _ in 0..64 {
        if !stack.contains(&at) {
            return None;
        }
        let word = moment.word(at)?;
        if word & 7 == 0 && word > at && stack.contains(&word) {
            return Some(at);
        }
        at += 8;
    }
    None
}
