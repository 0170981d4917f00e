//! How a program ended.

use serde::{Deserialize, Serialize};

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitReport {
    /// By exit, with this status.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl ExitReport {
    /// From the status that wait(2) gives.
    pub fn from_wait(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code(status >> 8 & 0xff),
            signal => Self::Signal(signal),
        }
    }

    /// What a shell would say.
    pub fn shell_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_told_as_a_shell_would() {
        assert_eq!(ExitReport::from_wait(3 << 8).shell_code(), 3);
        assert_eq!(ExitReport::from_wait(11).shell_code(), 139);
        assert_eq!(ExitReport::from_wait(11 | 0x80).shell_code(), 139);
        let text = serde_json::to_string(&ExitReport::Code(3)).unwrap();
        assert_eq!(text, r#"{"code":3}"#);
    }
}
