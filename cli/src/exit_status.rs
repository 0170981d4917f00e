//! What the exit status of heapattach says.

use std::process::ExitCode;

use heapattach_report::Status;

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
    /// `run`: the program's own status, a signal as 128 + its number; `check`: the one for what does not
    /// pass.
    Program(u8),
}

impl Exit {
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

/// As a session, or a check, has ended.
impl From<Status> for Exit {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::Done,
            Status::Failed => Self::Failed,
            Status::Refused => Self::Refused,
            Status::Unsupported => Self::Unsupported,
            Status::TargetDied => Self::TargetDied,
            Status::Incomplete => Self::Incomplete,
            Status::Left => Self::Left,
            Status::Interrupted => Self::Interrupted,
            Status::RunFailed => Self::RunFailed,
            Status::CannotExecute => Self::CannotExecute,
            Status::NotFound => Self::NotFound,
            Status::Other(code) => Self::Program(code),
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
    fn a_command_ends_with_the_number_that_its_report_has() {
        for number in 0..=u8::MAX {
            assert_eq!(Exit::from(Status::from(number)).code(), number);
        }
    }
}
