//! What the exit status of heapattach says.

use std::process::ExitCode;

/// Every way to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Something failed; the target is as it was found.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// Attach was refused; the target was not touched.
    Refused,
    /// No permission would make this target possible.
    Unsupported,
    /// The target ended in mid-session.
    TargetDied,
    /// Records are missing: nothing is concluded.
    Incomplete,
    /// Something of ours is still in the target.
    Left,
    /// Interrupted, and detached cleanly.
    Interrupted,
    /// `run`: heapattach itself failed.
    RunFailed,
    /// `run`: the program cannot be executed.
    CannotExecute,
    /// `run`: there is no such program.
    NotFound,
    /// `run`: the program's own status, a signal as 128 + its number.
    Program(u8),
}

impl Exit {
    /// Those that have a number of their own.
    const NAMED: [Self; 12] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::Unsupported,
        Self::TargetDied,
        Self::Incomplete,
        Self::Left,
        Self::Interrupted,
        Self::RunFailed,
        Self::CannotExecute,
        Self::NotFound,
    ];

    /// The one of this number, as a report of a session has it.
    pub fn of(code: u8) -> Self {
        Self::NAMED.into_iter().find(|exit| exit.code() == code).unwrap_or(Self::Program(code))
    }

    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Unsupported => 4,
            Self::TargetDied => 5,
            Self::Incomplete => 6,
            Self::Left => 7,
            Self::Interrupted => 130,
            Self::RunFailed => 125,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
            Self::Program(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_meaning() {
        assert!(Exit::NAMED.into_iter().all(|exit| Exit::of(exit.code()) == exit));
        assert!((0..=u8::MAX).all(|code| Exit::of(code).code() == code));
    }
}
