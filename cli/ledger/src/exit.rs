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

    /// Whether a core file was written, by the same status.
    pub fn has_dumped(status: i32) -> bool {
        status & 0x7f != 0 && status & 0x80 != 0
    }

    /// What a shell would say.
    pub fn shell_code(self) -> u8 {
        let code = match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        };
        u8::try_from(code & 0xff).unwrap_or(u8::MAX)
    }

    /// In words: `exit status 3`, `killed by SIGSEGV`.
    pub fn words(self) -> String {
        match self {
            Self::Code(code) => format!("exit status {code}"),
            Self::Signal(signal) => format!("killed by {}", signal_name(signal)),
        }
    }

    /// Whether it was killed by a signal that means a defect of the program itself.
    pub fn is_crash(self) -> bool {
        let Self::Signal(signal) = self else { return false };
        CRASHES.iter().any(|name| signal_name(signal) == *name)
    }
}

/// Signals by number, as x86 and ARM count them.
#[rustfmt::skip]
const SIGNALS: [&str; 31] = [
    "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
    "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP",
    "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH",
    "SIGIO", "SIGPWR", "SIGSYS",
];

/// Those that a program gets for what it does, not from others.
const CRASHES: [&str; 7] =
    ["SIGSEGV", "SIGBUS", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"];

/// The name of a signal; the number of one that has none.
pub fn signal_name(number: i32) -> String {
    let at = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    match at.and_then(|at| SIGNALS.get(at)) {
        Some(name) => (*name).to_owned(),
        None => format!("signal {number}"),
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

    #[test]
    fn a_signal_has_its_name_and_says_whether_it_was_a_crash() {
        let told = |status| {
            let exit = ExitReport::from_wait(status);
            (exit.words(), exit.is_crash(), ExitReport::has_dumped(status))
        };
        assert_eq!(told(11 | 0x80), ("killed by SIGSEGV".to_owned(), true, true));
        assert_eq!(told(15), ("killed by SIGTERM".to_owned(), false, false));
        assert_eq!(told(40), ("killed by signal 40".to_owned(), false, false));
        assert_eq!(told(3 << 8 | 0x80 << 8), ("exit status 131".to_owned(), false, false));
        assert_eq!((signal_name(0), signal_name(-1)), ("signal 0".into(), "signal -1".into()));
    }
}
