//! The words by which an errand is agreed on, between us and the thread that runs it. They lie on
//! the control page, so that they read zero in a forked child: no errand is wanted there.

use nix::errno::Errno;

use crate::arch::errand_words::*;
use crate::{arch, home::Home};
use heapattach_process::{addr::RemoteAddr, memory::Memory};

/// What shall be called, and by which means.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// The function.
    pub function: RemoteAddr,
    /// Its arguments; those that are not needed are 0.
    pub arguments: [u64; MOST_ARGUMENTS],
    /// A descriptor to close afterwards.
    pub descriptor: Option<i32>,
    /// `dlerror`, if it has something to say.
    pub error: Option<RemoteAddr>,
    /// `__errno_location`.
    pub errno: RemoteAddr,
    /// Whether the function starts a thread, which then has much of the one that calls.
    pub starts_thread: bool,
}

/// The words in the target.
#[derive(Clone, Copy, Debug)]
pub struct Block<'m> {
    memory: &'m Memory,
    at: RemoteAddr,
}

impl<'m> Block<'m> {
    /// Those of `home`.
    pub fn of(memory: &'m Memory, home: &Home) -> Self {
        Self { memory, at: home.control().offset(AT as u64) }
    }

    /// How far it is; `None` if it says nonsense or is not mapped.
    pub fn state(&self) -> Option<State> {
        use State::{Claimed, Done, Granted, Idle, Parked, Refused, Running, Wanted};
        let states = [Idle, Wanted, Claimed, Parked, Granted, Running, Done, Refused];
        let mut word = [0; 4];
        self.memory.read(self.word(STATE), &mut word).ok()?;
        states.get(u32::from_le_bytes(word) as usize).copied()
    }

    /// Says how far it is.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn set_state(&self, state: State) -> Result<(), Errno> {
        self.memory.write(self.word(STATE), &(state as u32).to_le_bytes())
    }

    /// Writes the path.
    ///
    /// # Errors
    /// `ENAMETOOLONG`, or when the target cannot be written.
    pub fn set_path(&self, path: &[u8]) -> Result<(), Errno> {
        let path = [path, b"\0"].concat();
        if path.len() > PATH_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.memory.write(self.path(), &path)
    }

    /// The path that was written last; empty if none.
    pub fn written_path(&self) -> Vec<u8> {
        self.memory.string(self.path(), PATH_BYTES).unwrap_or_default()
    }

    /// Where the path lies.
    pub fn path(&self) -> RemoteAddr {
        self.word(PATH)
    }

    /// Writes a text and a number for functions that want the address of one, where messages would lie; answers
    /// these addresses.
    ///
    /// # Errors
    /// `ENAMETOOLONG`, or when the target cannot be written.
    pub fn set_operands(&self, text: &[u8], number: u64) -> Result<[RemoteAddr; 2], Errno> {
        let text = [text, b"\0"].concat();
        if text.len() > ANSWER - OPERANDS {
            return Err(Errno::ENAMETOOLONG);
        }
        let [of_number, of_text] = [8, OPERANDS].map(|at| self.word(MESSAGE + at));
        self.memory.write_word(of_number, number)?;
        self.memory.write(of_text, &text)?;
        Ok([of_text, of_number])
    }

    /// Makes room for so many bytes of an answer, behind the text; answers where they go, and where their number is.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn set_answer(&self, bytes: u64) -> Result<[RemoteAddr; 2], Errno> {
        let room = [0, 8].map(|at| self.word(MESSAGE + ANSWER + at));
        room.into_iter()
            .zip([0, bytes])
            .try_for_each(|(at, word)| self.memory.write_word(at, word))?;
        Ok(room)
    }

    /// What was written there.
    pub fn answer(&self) -> Option<u64> {
        self.memory.word(self.word(MESSAGE + ANSWER)).ok()
    }

    /// Writes what shall be done, but not that it is wanted.
    ///
    /// # Errors
    /// When the target cannot be written.
    pub fn set_order(&self, order: &Order) -> Result<(), Errno> {
        let (bytes, parts) = arch::vector_room();
        let descriptor = order.descriptor.unwrap_or(-1);
        let arguments = (ARGUMENTS..).step_by(8).zip(order.arguments);
        let words = [
            (PATIENCE, SPINS),
            (FUNCTION, order.function.get()),
            (DESCRIPTOR, descriptor.cast_unsigned().into()),
            (RESULT, 0),
            (ERROR, order.error.map_or(0, RemoteAddr::get)),
            (ERRNO, order.errno.get()),
            (VECTOR_BYTES, bytes),
            (VECTORS, parts),
            (BLOCKED, blocked()),
            (MESSAGE, 0),
        ];
        for (word, value) in words.into_iter().chain(arguments) {
            self.memory.write_word(self.word(word), value)?;
        }
        Ok(())
    }

    /// Stack pointer and thread pointer of the thread that waits.
    pub fn waiting(&self) -> Option<(RemoteAddr, RemoteAddr)> {
        let word = |at| self.memory.word(self.word(at)).ok().map(RemoteAddr::new);
        Some((word(STACK)?, word(THREAD)?))
    }

    /// What the function answered.
    pub fn result(&self) -> Option<u64> {
        self.memory.word(self.word(RESULT)).ok()
    }

    /// What `dlerror` said, printable; empty if nothing.
    pub fn message(&self) -> String {
        let text = self.memory.string(self.word(MESSAGE), MESSAGE_BYTES).unwrap_or_default();
        String::from_utf8_lossy(&text).chars().filter(|c| !c.is_control()).collect()
    }

    fn word(&self, word: usize) -> RemoteAddr {
        self.at.offset(word as u64)
    }
}

/// Where a text lies among messages; before it a number, and no message.
const OPERANDS: usize = 16;
/// Where an answer of a word lies, and then the number of its bytes.
const ANSWER: usize = MESSAGE_BYTES - 16;

/// How often a thread looks for an answer: long enough for us to come on a busy machine, short
/// enough not to be noticed if we are gone.
const SPINS: u64 = 1 << 21;

/// Every signal but those that a fault raises, and those by which C libraries reach all of their
/// threads.
fn blocked() -> u64 {
    const LIBRARY: [i32; 3] = [32, 33, 34];
    let faults = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGSYS,
        libc::SIGABRT,
    ];
    faults.iter().chain(&LIBRARY).fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)))
}
