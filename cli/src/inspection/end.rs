//! Why the watching ends, and the moment of the check with it.

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
    /// Somebody pressed Ctrl-C, or the command is gone.
    Asked,
    /// The target became another program.
    Execed,
    /// The target is gone.
    Gone,
}

impl End {
    /// The moment, as the report calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ends => "exit",
            Self::Begins => "exit-start",
            Self::Becomes => "exec",
            Self::Signalled => "signal",
            Self::Over => "time",
            Self::Asked => "asked",
            // Something else came before the last check.
            Self::Execed | Self::Gone => "round",
        }
    }

    /// What became of the target, as the report calls it.
    pub(super) fn outcome(self) -> &'static str {
        match self {
            Self::Ends | Self::Begins | Self::Gone => "exited",
            Self::Execed | Self::Becomes => "execed",
            Self::Signalled | Self::Over | Self::Asked => "detached",
        }
    }
}
