//! How it went, as far as that decides how the command ends.

use serde::{Deserialize, Serialize};

/// How it went. JSON has it as a number, the one that the command ends with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u8", into = "u8")]
pub enum Status {
    /// As asked for.
    #[default]
    Done,
    /// Something failed; the target is as it was found.
    Failed,
    /// Attach was refused; the target was not touched.
    Refused,
    /// No permission would make this target possible.
    Unsupported,
    /// The target ended in mid-session.
    TargetDied,
    /// Records are missing, or names that take part in the result: nothing is concluded.
    Incomplete,
    /// Something of heapattach is still in the target.
    Left,
    /// Interrupted, and detached cleanly.
    Interrupted,
    /// `run`: heapattach itself failed.
    RunFailed,
    /// `run`: the program cannot be executed.
    CannotExecute,
    /// `run`: there is no such program.
    NotFound,
    /// Any other number: the program's own status, or the one for a check that does not pass.
    Other(u8),
}

impl Status {
    /// Those that have a number of their own.
    pub const NAMED: [Self; 11] = [
        Self::Done,
        Self::Failed,
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

    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Unsupported => 4,
            Self::TargetDied => 5,
            Self::Incomplete => 6,
            Self::Left => 7,
            Self::RunFailed => 125,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
            Self::Interrupted => 130,
            Self::Other(number) => number,
        }
    }

    /// The same where something failed afterwards, which hides nothing that went wrong before.
    #[must_use]
    pub fn or_failed(self) -> Self {
        if self == Self::Done { Self::Failed } else { self }
    }
}

impl From<u8> for Status {
    fn from(number: u8) -> Self {
        let named = Self::NAMED.into_iter().find(|status| status.number() == number);
        named.unwrap_or(Self::Other(number))
    }
}

impl From<Status> for u8 {
    fn from(status: Status) -> Self {
        status.number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_meaning() {
        for status in Status::NAMED {
            assert_eq!(Status::from(status.number()), status);
        }
        for number in 0..=u8::MAX {
            let text = serde_json::to_string(&Status::from(number)).unwrap();
            assert_eq!(text, number.to_string());
            assert_eq!(serde_json::from_str::<Status>(&text).unwrap().number(), number);
        }
    }

    #[test]
    fn a_later_failure_hides_no_earlier_one() {
        assert_eq!(Status::Done.or_failed(), Status::Failed);
        assert_eq!(Status::Left.or_failed(), Status::Left);
    }
}
