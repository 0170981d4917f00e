//! What a thread was seen to do.

/// What a thread was seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It stopped because we interrupted it, or its process is stopped by a signal.
    Interrupted,
    /// It is about to take this signal.
    Signal(i32),
    /// It is at the border of a system call.
    Call,
    /// Another event we asked for (exec, exit).
    Event(i32),
    /// It ended.
    Ended,
    /// Nothing, up to the deadline.
    Nothing,
}
