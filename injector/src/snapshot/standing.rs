//! A thread that is stopped, and whose function a place on its stack belongs to.

use crate::{
    arch::{self, Registers},
    trace::stopped::Stopped,
    unwind::Tables,
};
use heapattach_process::{
    memory::Memory,
    proc::{Process, maps::Mapping},
};

use heapattach_abi::unwind::Rule;

/// A deeper stack is not followed to its end: a target may be stopped for it, many times.
const DEEPEST: usize = 1000;

/// A thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub tid: i32,
    /// What its thread-local variables lie below.
    pub pointer: u64,
    /// Where its stack ends.
    pub stack: u64,
    /// Where it goes on.
    pub code: u64,
    /// Its frame pointer.
    pub frame: u64,
    /// The system call that it is in, if it is.
    pub call: Option<i64>,
    /// The words of its general registers.
    pub words: [u64; 16],
}

impl Standing {
    /// With these registers.
    pub fn of(tid: i32, registers: &Registers) -> Self {
        Self {
            tid,
            pointer: arch::thread_pointer(registers).get(),
            stack: arch::stack_pointer(registers).get(),
            code: arch::program_counter(registers).get(),
            frame: arch::frame_pointer(registers),
            call: arch::call_number(registers),
            words: arch::words(registers),
        }
    }

    /// All threads of a stopped target.
    pub fn all(stop: &Stopped<'_>) -> Vec<Self> {
        stop.threads().iter().map(|thread| Self::of(thread.tid, &thread.registers)).collect()
    }

    /// An address within the function that the word at `place` on its stack belongs to, if all
    /// frames up to there can be followed. `read` loads a word.
    pub fn owner(
        &self,
        place: u64,
        rules: &Rules,
        read: &mut dyn FnMut(u64) -> u64,
    ) -> Option<u64> {
        let Self { stack: mut at, mut code, mut frame, .. } = *self;
        let mut lookup = code;
        for _ in 0..DEEPEST {
            let (above, saved) = match rules.at(lookup)? {
                Rule::Stack { distance, saved } => {
                    let above = at.checked_add(8 * u64::from(distance))?;
                    (above, (saved != 0).then(|| above.wrapping_sub(8 * u64::from(saved))))
                }
                Rule::Frame { distance, saved } => {
                    let above = frame.checked_add(8 * u64::from(distance))?;
                    (above, (saved != 0).then(|| above.wrapping_sub(8 * u64::from(saved))))
                }
                Rule::Stored { distance, saves } => {
                    let stored = frame.wrapping_add_signed(8 * i64::from(distance));
                    (read(stored), saves.then_some(frame))
                }
                Rule::Linkage(byte) => {
                    let more = if lookup & 15 >= u64::from(byte) { 8 } else { 0 };
                    (at.checked_add(8 + more)?, None)
                }
                // The first function has all that is left.
                Rule::Outermost => return Some(lookup),
                Rule::Signal | Rule::Unknown => return None,
            };
            if above <= at {
                return None;
            }
            if place < above {
                return Some(lookup);
            }
            frame = saved.map_or(frame, &mut *read);
            (at, code) = (above, read(above.wrapping_sub(8)));
            lookup = code.checked_sub(1)?;
        }
        None
    }
}

/// How frames are found, by address of code.
#[derive(Debug)]
pub struct Rules(Tables);

impl Rules {
    /// Of all that is mapped now.
    pub fn of(process: &Process, memory: &Memory, maps: &[Mapping<'_>]) -> Self {
        Self(Tables::new(process, memory, maps))
    }

    fn at(&self, code: u64) -> Option<Rule> {
        self.0.rule(code)
    }
}
