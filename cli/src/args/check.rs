//! `heapattach check`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};

use super::{
    hooks::HookArgs,
    limits::LimitArgs,
    moment::{self, Moment},
    outlet::OutletArgs,
    quiet::QuietArgs,
};
use crate::{
    check::{Kind, RootKind},
    quantity::parse_duration,
    root_arg,
};

const CHECK: &str = "\
Examples:
  heapattach check -- ./tests                    at its end; exits with 23 if something is lost
  heapattach check --suppressions known.supp --junit leaks.xml -- ./tests
  heapattach check --baseline leaks.json --update-baseline -- ./tests    what is lost now is known;
  heapattach check --baseline leaks.json -- ./tests                      only more than that fails
  heapattach check --max-leak 64KiB --max-peak 1GiB -- ./tests           so much may be
  heapattach check --gen-suppressions -- ./tests lines to keep these leaks quiet
  heapattach check --at signal:USR2 -- ./server  when it gets this signal
  heapattach check -p 4711 --duration 60s --warmup 10s     what was allocated in 50 s, and lost";

/// `heapattach check`.
#[derive(Clone, Debug, Args)]
#[command(before_help = CHECK)]
pub struct CheckArgs {
    /// The process to check: of its blocks, those that it allocates from now on
    #[arg(
        short,
        long,
        value_name = "PID",
        value_parser = clap::value_parser!(i32).range(1..),
        conflicts_with_all = ["command", "at"]
    )]
    pub pid: Option<i32>,
    /// How long to record before the check: 300ms, 5s, 10m, 1h [default: until Ctrl-C, or the end]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Do not judge what was allocated before so much time was over
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// When to check a program that is started: at its `exit`, when all is done; at `exit-start`,
    /// before what is left to exit is done; or at a `signal`, which it does not see: signal:USR2
    #[arg(long, value_name = "WHEN", default_value = "exit", value_parser = moment::parse)]
    pub at: Moment,
    /// How memory is kept as it was: read while the process stands still, copied meanwhile, or kept
    /// by a clone of the process
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub snapshot: SnapshotArg,
    /// How long the check may stop a process that is to go on
    #[arg(
        long,
        value_name = "TIME",
        default_value = "250ms",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_pause: Duration,
    /// Where pointers count [default: everywhere]
    #[arg(long, value_parser = root_arg::parser(), value_name = "KIND", value_delimiter = ',')]
    pub roots: Vec<RootKind>,
    /// Tell who holds what is large and reachable: the way from a root to the blocks of a FUNCTION,
    /// or to those of most bytes: `top`
    #[arg(long, value_name = "FUNCTION|top")]
    pub retained_by: Option<String>,
    /// Where it is hooked, and what is told of a call.
    #[command(flatten)]
    pub hooks: HookArgs,
    /// The exit status if a limit is passed and the program itself ends with 0
    #[arg(long, value_name = "STATUS", default_value_t = 23)]
    pub error_exitcode: u8,
    /// What may be lost.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// What is not told.
    #[command(flatten)]
    pub quiet: QuietArgs,
    /// How the rest is.
    #[command(flatten)]
    pub outlet: OutletArgs,
    /// Attach although a seccomp filter cannot be suspended
    #[arg(long)]
    pub force: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// The value of `--snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SnapshotArg {
    /// Copy what is small, clone what is large
    #[default]
    Auto,
    /// Look while it stands still
    Stop,
    /// Copy, and look then
    Copy,
    /// Clone, and look at the clone
    Fork,
}

impl CheckArgs {
    /// What is told one by one.
    pub fn told(&self) -> Vec<Kind> {
        let lost = [Kind::Direct, Kind::Indirect];
        let shown = self.outlet.show.iter().map(|&arg| Kind::from(arg));
        lost.into_iter().chain(self.limits.kinds()).chain(shown).collect()
    }
}
