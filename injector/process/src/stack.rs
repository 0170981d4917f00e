//! One call stack of the target, as it was read.

use crate::{addr::RemoteAddr, event::StackId};

/// Why a stack ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEnd {
    /// The outermost frame was reached.
    Outermost,
    /// It is deeper than is recorded.
    Depth,
    /// It goes on in memory that is not known to be a stack.
    Unbounded,
    /// Code that no table describes.
    NoTable,
    /// A table that cannot be followed.
    NoRule,
    /// The next frame is not where a frame can be.
    Implausible,
    /// Code that was loaded a moment ago, and that could not be looked at.
    Late,
    /// The target had no room for it, or says nonsense.
    Lost,
}

/// One call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Return addresses, the innermost first; Python frames have addresses of their own
    /// ([`crate::python_frame`]).
    pub frames: Vec<RemoteAddr>,
    /// Why there are no more.
    pub end: StackEnd,
    /// The stack without Python frames, if it has any.
    pub native: Option<StackId>,
}
