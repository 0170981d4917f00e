//! `heapattach check`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use super::{
    EXPERT, json, limits::LimitArgs, moment, outlet::OutletArgs, quiet::QuietArgs, roots,
    session::HookArgs, session::parse_processes,
};
use crate::{config_file::ConfigArgs, terminal::Verbosity};
use heapattach_reach::{Kind, RootKind, RootSet};
use heapattach_session::check::options::{CheckOptions, Snapshot, When};
use heapattach_text::quantity::parse_duration;

const SHORT: &str = "\
Examples:
  heapattach check -- ./tests                    at its end; exits with 23 if blocks are leaked
  heapattach check --follow-forks -- make test   every program of a test suite
  heapattach check -p 4711 --duration 60s        what a running process allocates meanwhile";

const CHECK: &str = "\
Examples:
  heapattach check -- ./tests                    at its end; exits with 23 if blocks are leaked
  heapattach check --suppressions known.supp --junit leaks.xml -- ./tests
  heapattach check --baseline leaks.json --update-baseline -- ./tests    accept what leaks now;
  heapattach check --baseline leaks.json -- ./tests                      only more than that fails
  heapattach check --max-leak 64KiB --max-peak 1GiB -- ./tests           limits
  heapattach check --gen-suppressions -- ./tests lines that suppress these leaks
  heapattach check --follow-forks -- make -j4 test    every program of the suite, each at its end
  heapattach check --at signal:USR2 -- ./server  when it gets this signal
  heapattach check -p 4711 --every 10m           what is leaked by now, and what grows
  heapattach check -p 4711 --duration 60s --warmup 10s     what was allocated in 50 s, and leaked";

/// `heapattach check`.
#[derive(Clone, Debug, Args)]
#[command(before_help = SHORT, before_long_help = CHECK)]
pub struct CheckArgs {
    /// Check this running process: the blocks that it allocates from now on
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
    /// Check every TIME as well, before the last check: 30s, 10m. Each result is printed at once, and at
    /// the end what grew from check to check
    #[arg(long, value_name = "TIME", value_parser = parse_period, allow_hyphen_values = true)]
    pub every: Option<Duration>,
    /// Do not judge blocks that were allocated in the first TIME
    #[arg(hide_short_help = true, long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub warmup: Option<Duration>,
    /// When to check a program that is started: `exit`, after all exit handlers; `exit-start`, before
    /// them; `exec`, when it execs another program, or else at its end; signal:USR2, at this signal,
    /// which it does not see
    #[arg(hide_short_help = true, long, value_name = "WHEN", default_value = "exit", value_parser = moment::parse)]
    pub at: When,
    /// Check every forked process, too, and the programs they exec, each at its end
    #[arg(long, conflicts_with = "pid")]
    pub follow_forks: bool,
    /// Check at most N processes; if there are more, the result says so and is not clean
    #[arg(
        hide_short_help = true,
        long,
        value_name = "N",
        default_value_t = 4096,
        requires = "follow_forks",
        value_parser = parse_processes,
        allow_hyphen_values = true
    )]
    pub max_processes: usize,
    /// With --follow-forks: do not check programs of this name, nor their forked children; can be given
    /// again: --skip '*sh' --skip python3
    #[arg(hide_short_help = true, long, value_name = "NAME", requires = "follow_forks")]
    pub skip: Vec<String>,
    /// How memory is read at one moment: during a stop, copied during a stop, or by a clone of the
    /// process
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub snapshot: SnapshotArg,
    /// How long the check may stop a process that goes on
    #[arg(
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "250ms",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_pause: Duration,
    /// Refuse to attach if stopping all threads is expected to take longer, by their number and the
    /// load. Later stops are not refused: what was begun is undone
    #[arg(
        help_heading = EXPERT,
        hide_short_help = true,
        long,
        value_name = "TIME",
        default_value = "1s",
        value_parser = parse_duration,
        allow_hyphen_values = true
    )]
    pub max_stop: Duration,
    /// Tell whether the heap grows, by which stack, and whether that is a leak; limits on growth switch
    /// it on, too
    #[arg(hide_short_help = true, long)]
    pub flow: bool,
    /// Where pointers to blocks count [default: everywhere]
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_parser = roots::parser(), value_name = "KIND", value_delimiter = ',')]
    pub roots: Vec<RootKind>,
    /// Pointers count at any byte, not only at multiples of 8: for packed structures
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub unaligned: bool,
    /// Tell which pointers keep large reachable blocks: the path from a root to the blocks of FUNCTION,
    /// or to the largest: `top`
    #[arg(hide_short_help = true, long, value_name = "FUNCTION|top")]
    pub retained_by: Option<String>,
    /// Write these paths to FILE for `go tool pprof`, too: its frames are the blocks on the path
    #[arg(hide_short_help = true, long, value_name = "FILE", requires = "retained_by")]
    pub retained_pprof: Option<PathBuf>,
    /// Where it is hooked, and what is told of a call.
    #[command(flatten)]
    pub hooks: HookArgs,
    /// The exit status if a limit is exceeded and the program itself ends with 0 [default: 23]
    #[arg(hide_short_help = true, long, value_name = "STATUS")]
    pub error_exitcode: Option<u8>,
    /// What may leak.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// What is not told.
    #[command(flatten)]
    pub quiet: QuietArgs,
    /// How the rest is.
    #[command(flatten)]
    pub outlet: OutletArgs,
    /// Options of a file.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Attach even if a seccomp filter cannot be suspended, or another version of heapattach left hooks
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub force: bool,
    /// Print heapattach.h, by which a program says when to check it, and what is not leaked
    #[arg(hide_short_help = true, long, exclusive = true)]
    pub print_header: bool,
    /// The program and its arguments
    #[arg(trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

/// The value of `--snapshot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SnapshotArg {
    /// Copy small processes, clone large ones
    #[default]
    Auto,
    /// Read during the stop
    Stop,
    /// Copy during the stop, and read the copy
    Copy,
    /// Clone during the stop, and read the clone
    Fork,
    /// Copy while the process runs (-p), and during the stop only what was written meanwhile; takes as much
    /// memory as the process
    Early,
}

impl From<SnapshotArg> for Snapshot {
    fn from(arg: SnapshotArg) -> Self {
        match arg {
            SnapshotArg::Auto => Self::Auto,
            SnapshotArg::Stop => Self::Stop,
            SnapshotArg::Copy => Self::Copy,
            SnapshotArg::Fork => Self::Fork,
            SnapshotArg::Early => Self::Early,
        }
    }
}

/// A check stops the process: more often only costs time.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    match period >= LEAST_PERIOD {
        true => Ok(period),
        false => Err("a check stops the process: at least 100ms apart".to_owned()),
    }
}

impl CheckArgs {
    /// What cannot be done together, in words, if it was given.
    pub fn refusal(&self) -> Option<String> {
        let option = match (self.at, self.snapshot) {
            _ if !self.follow_forks => return None,
            (When::ExitStart, _) => "--at exit-start",
            (When::Exec, _) => "--at exec",
            (When::Signal(_), _) => "--at signal",
            (When::Exit, SnapshotArg::Fork) => "--snapshot fork",
            (When::Exit, SnapshotArg::Early) => "--snapshot early",
            (When::Exit, _) => return None,
        };
        Some(format!(
            "{option} is for one process: with --follow-forks every program is checked at its end; \
             leave one of the two out"
        ))
    }

    /// How much is said while the check lasts: where JSON goes to standard error nothing else does.
    pub fn verbosity(&self) -> Verbosity {
        let outlet = &self.outlet;
        let is_json = json::is_instead(outlet.json.as_ref());
        match is_json && self.pid.is_none() && outlet.report.is_none() {
            true => Verbosity::Silent,
            false if outlet.quiet => Verbosity::Errors,
            false => Verbosity::Usual,
        }
    }

    /// What the check is told.
    pub fn options(&self) -> CheckOptions {
        CheckOptions {
            duration: self.duration,
            every: self.every,
            warmup: self.warmup,
            when: self.at,
            follow_forks: self.follow_forks,
            max_processes: self.max_processes,
            skip: self.skip.clone(),
            snapshot: self.snapshot.into(),
            max_pause: self.max_pause,
            max_stop: self.max_stop,
            growth: self.flow || self.limits.ask_for_growth(),
            roots: self.roots(),
            roots_are_chosen: !self.roots.is_empty(),
            unaligned: self.unaligned,
            retained_by: self.retained_by.clone(),
            hooks: self.hooks.options(),
            told: self.told(),
            functions: self.outlet.json.is_some(),
            embedded_rules: !self.quiet.no_embedded_suppressions,
            built_in_rules: !self.quiet.no_builtin_suppressions,
        }
    }

    /// Where pointers count.
    fn roots(&self) -> RootSet {
        match self.roots.as_slice() {
            [] => RootKind::ALL.into_iter().collect(),
            kinds => kinds.iter().copied().collect(),
        }
    }

    /// What is told one by one.
    fn told(&self) -> Vec<Kind> {
        let lost = [Kind::Direct, Kind::Indirect];
        let shown = self.outlet.show.iter().map(|&arg| Kind::from(arg));
        lost.into_iter().chain(self.limits.kinds()).chain(shown).collect()
    }
}
