//! Why the watching ends, and the moment of the check with it.

use heapattach_report::{CheckMoment, Outcome, Report};

/// Why the watching ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process is at its end.
    Ends,
    /// It begins to end.
    Begins,
    /// It asks to become another program.
    Becomes,
    /// The signal came.
    Signalled,
    /// As long as asked for.
    Over,
    /// The user pressed Ctrl-C, or the command is gone.
    Asked,
    /// The target became another program.
    Execed,
    /// The target is gone.
    Gone,
}

impl End {
    /// The moment of the last check.
    pub(super) fn moment(self) -> CheckMoment {
        match self {
            Self::Ends => CheckMoment::Exit,
            Self::Begins => CheckMoment::ExitStart,
            Self::Becomes => CheckMoment::Exec,
            Self::Signalled => CheckMoment::Signal,
            Self::Over => CheckMoment::Time,
            Self::Asked => CheckMoment::Asked,
            // Something else came before the last check.
            Self::Execed | Self::Gone => CheckMoment::Round,
        }
    }

    /// How the session ended.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Ends | Self::Begins | Self::Gone => Outcome::Exited,
            Self::Execed | Self::Becomes => Outcome::Execed,
            Self::Signalled | Self::Over | Self::Asked => Outcome::Detached,
        }
    }
}

/// Leaves a program to a checker of its own.
pub fn step_aside(name: &str, report: &mut Report) {
    report.outcome = Outcome::Aside;
    report.why = Some(format!("it was built with {name}, whose own check does the work"));
}

/// Why there is no check at this end of it, if so.
pub fn note_end(end: Option<End>, report: &mut Report) {
    if end == Some(End::Gone) {
        report.why = Some("it ended before it could be".to_owned());
    }
}
