//! What a function answers that always answers the same: read from its code, which is not run.
//!
//! Such functions are how programs carry settings for a library that may be linked into them. What
//! their instructions do, the processor's file knows (`arch::answer_step`), which has the tests, too.

use nix::errno::Errno;

use crate::arch::{self, Step};
use heapattach_process::{addr::RemoteAddr, memory::Memory};

/// Longer functions do something else besides.
const CODE: usize = 64;
const INSTRUCTIONS: usize = 16;
/// Longer texts are no settings.
const TEXT: usize = 1 << 16;

/// Why it cannot be told what a function answers.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstantError {
    /// It does more than to answer.
    #[error("its code at {0:#x} does more than to return a constant")]
    Code(u64),
    /// It, or its text, cannot be read.
    #[error("{what} at {at:#x} cannot be read")]
    Memory {
        /// Which of them.
        what: &'static str,
        /// Where.
        at: u64,
        /// Why.
        source: Errno,
    },
}

/// The text that the function at `at` answers the address of; `None` if it answers null.
///
/// # Errors
/// See [`ConstantError`].
pub fn text(memory: &Memory, at: RemoteAddr) -> Result<Option<String>, ConstantError> {
    let answer = answer(memory, at)?;
    if answer == 0 {
        return Ok(None);
    }
    let text = memory
        .string(RemoteAddr::new(answer), TEXT)
        .map_err(|source| ConstantError::Memory { what: "its text", at: answer, source })?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// The `int` that the function at `at` answers; of a variable, what that is now.
///
/// # Errors
/// See [`ConstantError`].
pub fn number(memory: &Memory, at: RemoteAddr) -> Result<u32, ConstantError> {
    let answer = answer(memory, at)?;
    // What is above the half has no meaning.
    Ok(u32::try_from(answer & u64::from(u32::MAX)).unwrap_or(u32::MAX))
}

/// What it answers when it returns.
fn answer(memory: &Memory, at: RemoteAddr) -> Result<u64, ConstantError> {
    let mut code = Code::read(memory, at)?;
    let (mut answer, mut jumped) = (None, false);
    for _ in 0..INSTRUCTIONS {
        let (step, place) = code.next()?;
        let refused = ConstantError::Code(place);
        match step {
            Step::Nothing => {}
            Step::Jumps(to) if !jumped => {
                jumped = true;
                code = Code::read(memory, to)?;
            }
            Step::Jumps(_) => return Err(refused),
            Step::Answers(value) => answer = Some(value),
            Step::AnswersWord(at) => answer = Some(memory.word(at).map_err(|_| refused)?),
            Step::AnswersHalf(at) => {
                let mut half = [0; 4];
                memory.read(at, &mut half).map_err(|_| refused)?;
                answer = Some(u64::from(u32::from_le_bytes(half)));
            }
            Step::Returns => return answer.ok_or(refused),
        }
    }
    Err(ConstantError::Code(at.get()))
}

/// The instructions from some address on.
struct Code {
    bytes: Vec<u8>,
    at: u64,
    used: usize,
}

impl Code {
    fn read(memory: &Memory, at: RemoteAddr) -> Result<Self, ConstantError> {
        let mut bytes = vec![0; CODE];
        let read = memory.read_some(at, &mut bytes).map_err(|source| ConstantError::Memory {
            what: "its code",
            at: at.get(),
            source,
        })?;
        bytes.truncate(read);
        Ok(Self { bytes, at: at.get(), used: 0 })
    }

    /// What the next one does, and where it lies.
    fn next(&mut self) -> Result<(Step, u64), ConstantError> {
        let at = self.at.wrapping_add(self.used as u64);
        let rest = self.bytes.get(self.used..).unwrap_or_default();
        let (step, length) =
            arch::answer_step(rest, RemoteAddr::new(at)).ok_or(ConstantError::Code(at))?;
        self.used += length;
        Ok((step, at))
    }
}
