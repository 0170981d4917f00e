//! Where the words of an errand lie, and what they say: for the code that runs in the target, and for
//! the code that reads and writes them from outside (`shared_object::Block`).

use heapattach_abi::control::{CONTROL_BYTES, Control};

/// Where on the control page they lie.
pub const AT: usize = 1024;
/// A [`State`].
pub const STATE: usize = 0;
/// The stack pointer of the thread that waits for an answer.
pub const STACK: usize = 8;
/// Its thread pointer.
pub const THREAD: usize = 16;
/// How often it looks whether we have answered.
pub const PATIENCE: usize = 24;
/// What to call.
pub const FUNCTION: usize = 32;
/// A descriptor to close afterwards, or -1: half a word.
pub const DESCRIPTOR: usize = 40;
/// What the function answered.
pub const RESULT: usize = 56;
/// `dlerror`, or 0.
pub const ERROR: usize = 64;
/// `__errno_location`.
pub const ERRNO: usize = 72;
/// What errno was.
pub const OLD_ERRNO: usize = 80;
/// Room for the vector state.
pub const VECTOR_BYTES: usize = 88;
/// The parts of the vector state.
pub const VECTORS: usize = 96;
/// The signals to be blocked meanwhile.
pub const BLOCKED: usize = 104;
/// The mask before.
pub const MASK: usize = 112;
/// How many arguments there can be.
pub const MOST_ARGUMENTS: usize = 5;
/// With which arguments.
pub const ARGUMENTS: usize = 120;
/// A path, or another text.
pub const PATH: usize = ARGUMENTS + 8 * MOST_ARGUMENTS;
/// Its room.
pub const PATH_BYTES: usize = 640;
/// Room for what `dlerror` said.
pub const MESSAGE: usize = PATH + PATH_BYTES;
/// Its room.
pub const MESSAGE_BYTES: usize = 768;

const _: () = assert!(AT >= size_of::<Control>());
const _: () = assert!(AT + MESSAGE + MESSAGE_BYTES <= CONTROL_BYTES);

/// How far an errand is.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// None is wanted.
    Idle = 0,
    /// The first thread to come shall claim it. Ours to write.
    Wanted = 1,
    /// A thread has claimed it.
    Claimed = 2,
    /// And waits for an answer; after a while it goes on, and this is [`State::Idle`].
    Parked = 3,
    /// It may call. Ours to write, while it is stopped.
    Granted = 4,
    /// It calls.
    Running = 5,
    /// It has called.
    Done = 6,
    /// It may not. Ours to write, while it is stopped.
    Refused = 7,
}

impl State {
    /// Whether a thread is in the errand's code, or will be back there.
    pub fn is_busy(self) -> bool {
        matches!(self, Self::Claimed | Self::Parked | Self::Granted | Self::Running)
    }
}
