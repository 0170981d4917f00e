//! What the user typed.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use heapattach_abi::{ring::SLOT_BYTES, stacks::USUAL_FRAMES};
use heapattach_injector::{
    asked, functions::Function, loader::Loader, plan::HookMode, python::Wish,
};
use nix::sys::signal::Signal;

use crate::{
    check::RootKind,
    look::{DiffArgs, ReportArgs},
    quantity::{parse_duration, parse_size},
    root_arg,
    which::WhichArgs,
};

const EXAMPLES: &str = "\
Examples:
  heapattach -p 4711 --duration 60s      who holds the memory of a running process? for a minute
  heapattach -p 4711                     the same until Ctrl-C
  heapattach -p 4711 --follow            who holds most, every five seconds; SIGUSR1 marks a moment
  heapattach --name redis-server         also --cgroup redis.service, --container 4f1c8a2b
  heapattach run -- ./server --port 80   from the first instruction on
  heapattach check -- ./tests            which blocks does it lose? 23 if any
  heapattach report FILE                 look at a recording again: trees, pictures, other tools
  heapattach diff A B                    what became different between two of them
  heapattach doctor -p 4711              what would be done to it; touches nothing
  heapattach status                      sessions, and what killed ones left
  heapattach detach -p 4711              clean up what a killed one left

The hooks are mapped from outside, not loaded with dlopen: a remote dlopen can deadlock the target.
For those who want them to be a shared object all the same, there is --loader dlopen.";

const COMPLETIONS: &str = "\
Examples:
  source <(heapattach completions bash)
  heapattach completions zsh > ~/.zfunc/_heapattach
  heapattach completions fish > ~/.config/fish/completions/heapattach.fish";

const MAN: &str = "\
Examples:
  heapattach man | man -l -
  heapattach man /usr/local/share/man/man1";

const RUN: &str = "\
Examples:
  heapattach run -- ./server --port 80
  heapattach run --all --report heap.txt -- make test      every block, exactly
  heapattach run --follow-forks -- nginx -g 'daemon off;'  every process that it forks, too";

const CHECK: &str = "\
Examples:
  heapattach check -- ./tests                    at its end; exits with 23 if something is lost
  heapattach check --at signal:USR2 -- ./server  when it gets this signal
  heapattach check -p 4711 --duration 60s        what was allocated in this minute, and lost";

const DOCTOR: &str = "\
Examples:
  heapattach doctor              what this machine allows
  heapattach doctor -p 4711      what would be done to this process";

const STATUS: &str = "\
Examples:
  heapattach status
  heapattach status --json | jq '.[].pid'";

const DETACH: &str = "\
Examples:
  heapattach detach -p 4711";

/// Tells what the memory of a live process is doing, and leaves the process as it was.
#[derive(Debug, Parser)]
#[command(name = "heapattach", version, before_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Attach to a process.
    #[command(flatten)]
    pub attach: AttachArgs,
    /// Or do something else.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The commands with a name.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a program and count from its first instruction
    Run(Box<RunArgs>),
    /// Find blocks that nobody can get at any more
    Check(Box<CheckArgs>),
    /// Show a recording, or write it for another program
    Report(Box<ReportArgs>),
    /// Show what became different between two recordings, or two moments of one
    Diff(Box<DiffArgs>),
    /// Say what would be done to a process, without touching it
    Doctor(DoctorArgs),
    /// List sessions, and what killed ones left
    Status(StatusArgs),
    /// Clean up what a killed heapattach left in a process
    Detach(DetachArgs),
    /// Print what a shell needs to complete command lines
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands into a folder
    Man(ManArgs),
}

/// `heapattach -p PID`.
#[derive(Clone, Debug, Args)]
pub struct AttachArgs {
    /// To which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// How it is done.
    #[command(flatten)]
    pub session: SessionArgs,
    /// How the hooks get into the process: `map` is the default because a thread that is made to
    /// load a library may stand where that is a deadlock; `dlopen` waits for one that does not
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub loader: LoaderArg,
    /// Attach although a seccomp filter cannot be suspended, or binds the process's own loader
    #[arg(long)]
    pub force: bool,
}

/// What a session is told.
#[derive(Clone, Debug, Args)]
pub struct SessionArgs {
    /// How long to count: 300ms, 5s, 10m, 1h [default: until Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, allow_hyphen_values = true)]
    pub duration: Option<Duration>,
    /// Where to hook: `entry` changes the first bytes of functions and misses no caller, `slots`
    /// changes only the words that modules call through
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub hooks: HookArg,
    /// Hook a function of the program's own: its symbol, its name in the source, or its address in the
    /// program's file; FORM is malloc, calloc, realloc, memalign, free, alloc:size=argN,
    /// alloc:size=argN*argM, realloc:ptr=argN,size=argM or free:ptr=argN. It must not throw
    #[arg(long, value_name = "FUNCTION=FORM", value_parser = asked::parse)]
    pub hook: Vec<Function>,
    /// Record a sample in so many bytes on average; blocks of that size are always recorded
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "512KiB",
        value_parser = parse_interval,
        allow_hyphen_values = true
    )]
    pub every: u64,
    /// Record every block; exact, and dearer
    #[arg(long, conflicts_with = "every")]
    pub all: bool,
    /// Leave mmap, munmap and mremap alone
    #[arg(long)]
    pub no_mmap: bool,
    /// What a thread does that finds its ring full: `drop` the record and count the loss, `slow`
    /// down by sampling less, or `wait` for a while
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub on_full: OnFull,
    /// Size of a ring; there are 64, and only what is used takes memory [default: 64KiB, 1MiB with
    /// --all]
    #[arg(long, value_name = "SIZE", value_parser = parse_ring, allow_hyphen_values = true)]
    pub ring: Option<u32>,
    /// How stacks are followed
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub unwind: Unwind,
    /// Frames of a stack that are recorded, at most 255
    #[arg(
        long,
        value_name = "FRAMES",
        default_value_t = USUAL_FRAMES,
        value_parser = clap::value_parser!(u32).range(1..=255),
        allow_hyphen_values = true
    )]
    pub max_depth: u32,
    /// Of so many stacks one is followed twice, to verify what makes it fast; the report says how
    /// many differed
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub verify: u32,
    /// Whether to find out which Python functions (CPython 3.11 and later) ask for memory: `auto`
    /// does not where system calls are filtered, as it makes one or two at each recorded allocation
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub python: PythonArg,
    /// Write every distinct stack of allocations there, as bare addresses
    #[arg(long, value_name = "FILE")]
    pub stacks: Option<PathBuf>,
    /// Look past functions with such names for who asked for memory, `*` being any text; adds to
    /// the built-in list of allocators, which `none` switches off
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub hide_frames: Vec<String>,
    /// How it is written down.
    #[command(flatten)]
    pub record: RecordArgs,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
    /// Detach when counting takes more of the target's CPU time than this many percent (estimated)
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent, allow_hyphen_values = true)]
    pub max_overhead: Option<f64>,
    /// Add no more memory to the target than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    pub max_memory: Option<u64>,
    /// Look at every process that is forked meanwhile, too, and at the programs they become. They
    /// are traced for as long as that lasts: signals, threads and forks cost them more
    #[arg(long)]
    pub follow_forks: bool,
    /// Look at no more processes than this; those that come later are only counted
    #[arg(
        long,
        value_name = "N",
        default_value_t = 256,
        requires = "follow_forks",
        value_parser = parse_processes,
        allow_hyphen_values = true
    )]
    pub max_processes: usize,
}

/// How a session is written down.
#[derive(Clone, Debug, Args)]
pub struct RecordArgs {
    /// Record the session into a new file [default: NAME.PID.heapattach here; none with --json]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave no file behind
    #[arg(long, conflicts_with = "output")]
    pub no_record: bool,
    /// Leave the command line of the process out of the recording
    #[arg(long)]
    pub redact: bool,
    /// Leave names out of the recording: who reads it needs the files of the same builds
    #[arg(long)]
    pub no_symbols: bool,
    /// About how large the file may become; then sums take the place of what happened until then
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "256MiB",
        value_parser = parse_file_size,
        allow_hyphen_values = true
    )]
    pub max_size: u64,
    /// Mark a moment in the recording so often, to look at or to compare later
    #[arg(long, value_name = "TIME", value_parser = parse_period, allow_hyphen_values = true)]
    pub snapshot_every: Option<Duration>,
    /// Mark a moment whenever so much more is held than at the last of these
    #[arg(long, value_name = "SIZE", value_parser = parse_growth, allow_hyphen_values = true)]
    pub dump_on_growth: Option<u64>,
    /// Mark a moment whenever more is held than ever before, by a tenth
    #[arg(long)]
    pub dump_on_peak: bool,
    /// Print who holds most again and again while counting goes on [default: every 5s]
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5s",
        value_parser = parse_period,
        conflicts_with = "json"
    )]
    pub follow: Option<Duration>,
}

/// `heapattach run`.
#[derive(Clone, Debug, Args)]
#[command(before_help = RUN)]
pub struct RunArgs {
    /// How it is done.
    #[command(flatten)]
    pub session: SessionArgs,
    /// Stop looking when the program execs another, and do not trace it while it runs: a debugger
    /// can be attached to it then
    #[arg(long, conflicts_with = "follow_forks")]
    pub no_follow_exec: bool,
    /// Write the report there instead of to standard error
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

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
    /// When to check a program that is started: at its `exit`, when all is done; at `exit-start`,
    /// before what is left to exit is done; or at a `signal`, which it does not see: signal:USR2
    #[arg(long, value_name = "WHEN", default_value = "exit", value_parser = parse_moment)]
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
    /// Where to hook
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub hooks: HookArg,
    /// Hook a function of the program's own: its symbol, its name in the source, or its address in the
    /// program's file; FORM is malloc, calloc, realloc, memalign, free, alloc:size=argN,
    /// alloc:size=argN*argM, realloc:ptr=argN,size=argM or free:ptr=argN. It must not throw
    #[arg(long, value_name = "FUNCTION=FORM", value_parser = asked::parse)]
    pub hook: Vec<Function>,
    /// Frames of a stack that are recorded, at most 255
    #[arg(
        long,
        value_name = "FRAMES",
        default_value_t = USUAL_FRAMES,
        value_parser = clap::value_parser!(u32).range(1..=255),
        allow_hyphen_values = true
    )]
    pub max_depth: u32,
    /// Look past functions with such names for who asked for memory
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    pub hide_frames: Vec<String>,
    /// The exit status if something is lost
    #[arg(long, value_name = "STATUS", default_value_t = 23)]
    pub error_exitcode: u8,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the result there
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Attach although a seccomp filter cannot be suspended
    #[arg(long)]
    pub force: bool,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// The value of `--at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the program ends.
    Exit,
    /// When it calls `exit`, or returns from `main`.
    ExitStart,
    /// When it is sent this signal.
    Signal(i32),
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

/// `heapattach doctor`.
#[derive(Clone, Debug, Args)]
#[command(before_help = DOCTOR)]
pub struct DoctorArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// How it would be hooked
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    pub hooks: HookArg,
    /// Functions of the program's own, as for `-p`
    #[arg(long, value_name = "FUNCTION=FORM", value_parser = asked::parse)]
    pub hook: Vec<Function>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `heapattach status`.
#[derive(Clone, Debug, Args)]
#[command(before_help = STATUS)]
pub struct StatusArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `heapattach detach`.
#[derive(Clone, Debug, Args)]
#[command(before_help = DETACH)]
pub struct DetachArgs {
    /// The process to clean up
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// `heapattach completions`.
#[derive(Clone, Debug, Args)]
#[command(before_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(required_unless_present = "pids")]
    pub shell: Option<Shell>,
    /// List processes instead, as the scripts have it done for `-p`
    #[arg(long, conflicts_with = "shell")]
    pub pids: bool,
}

/// `heapattach man`.
#[derive(Clone, Debug, Args)]
#[command(before_help = MAN)]
pub struct ManArgs {
    /// Where to write the pages of all commands
    pub folder: Option<PathBuf>,
}

/// A shell that can be told what to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

/// The value of `--hooks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HookArg {
    /// Entries where that is proved safe, slots elsewhere
    #[default]
    Auto,
    /// Slots only: no code is changed
    Slots,
    /// Entries only: what cannot be patched safely is not hooked
    Entry,
}

impl From<HookArg> for HookMode {
    fn from(arg: HookArg) -> Self {
        match arg {
            HookArg::Auto => Self::Auto,
            HookArg::Slots => Self::Slots,
            HookArg::Entry => Self::Entry,
        }
    }
}

/// The value of `--loader`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LoaderArg {
    /// Mapped from outside, by a few system calls
    #[default]
    Map,
    /// Loaded by the process itself, at the entry of an allocation function: a shared object that
    /// its loader and debuggers know
    Dlopen,
}

impl From<LoaderArg> for Loader {
    fn from(arg: LoaderArg) -> Self {
        match arg {
            LoaderArg::Map => Self::Map,
            LoaderArg::Dlopen => Self::Dlopen,
        }
    }
}

/// The value of `--on-full`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    /// Drop and count
    #[default]
    Drop,
    /// Sample less
    Slow,
    /// Wait, some seconds at most
    Wait,
}

/// The value of `--unwind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Unwind {
    /// By tables, and by frame pointers where there are none
    #[default]
    Auto,
    /// By frame pointers: for code without unwind information
    FramePointer,
    /// By tables, and stacks of coroutines and signal handlers too, which the kernel copies: a system
    /// call of the program's own, so not for one that forbids itself some of them
    Copy,
}

/// The value of `--python`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PythonArg {
    /// Unless system calls are filtered
    #[default]
    Auto,
    /// In any case
    On,
    /// No
    Off,
}

impl From<PythonArg> for Wish {
    fn from(arg: PythonArg) -> Self {
        match arg {
            PythonArg::Auto => Self::Auto,
            PythonArg::On => Self::On,
            PythonArg::Off => Self::Off,
        }
    }
}

impl SessionArgs {
    /// Mean bytes between samples.
    pub fn interval(&self) -> u64 {
        if self.all { 1 } else { self.every }
    }
}

impl SessionArgs {
    /// Whether a file is to be left behind that nobody has named.
    pub fn records_by_default(&self) -> bool {
        self.record.output.is_none() && !self.record.no_record && !self.json
    }
}

/// A smaller file could not even hold what there is to say of a session without events.
const LEAST_FILE: u64 = 1 << 20;
/// Each takes threads, descriptors and memory of ours.
const MOST_PROCESSES: usize = 4096;
/// More often is no moment to look at.
const LEAST_PERIOD: Duration = Duration::from_millis(100);

fn parse_file_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size >= LEAST_FILE).then_some(size).ok_or_else(|| format!("`{text}` is less than 1MiB"))
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let period = parse_duration(text)?;
    (period >= LEAST_PERIOD).then_some(period).ok_or_else(|| format!("`{text}` is less than 100ms"))
}

fn parse_processes(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=MOST_PROCESSES).contains(number));
    number.ok_or_else(|| format!("`{text}` is not 1 to {MOST_PROCESSES}"))
}

fn parse_growth(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    (size > 0).then_some(size).ok_or_else(|| format!("`{text}` is no growth"))
}

fn parse_interval(text: &str) -> Result<u64, String> {
    let size = parse_size(text)?;
    let limit = 1 << 40;
    if (1..=limit).contains(&size) { Ok(size) } else { Err(format!("`{text}` is not 1 to 1TiB")) }
}

/// Binary logarithm of the slots of a ring.
fn parse_ring(text: &str) -> Result<u32, String> {
    let slots = parse_size(text)? / SLOT_BYTES as u64;
    let bits = slots.checked_ilog2().unwrap_or(0);
    let is_sound = (7..=18).contains(&bits);
    is_sound.then_some(bits).ok_or_else(|| format!("`{text}` is not 4KiB to 8MiB"))
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    let (when, name) = text.split_once(':').unwrap_or((text, "USR2"));
    match when {
        "exit" if !text.contains(':') => Ok(Moment::Exit),
        "exit-start" if !text.contains(':') => Ok(Moment::ExitStart),
        "signal" => {
            let signal: Signal = format!("SIG{}", name.trim_start_matches("SIG"))
                .parse()
                .map_err(|_| format!("`{name}` is no signal"))?;
            Ok(Moment::Signal(signal as i32))
        }
        _ => Err(format!("`{text}` is not exit, exit-start or signal")),
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    number
        .filter(|n| n.is_finite() && (0.0..=100.0).contains(n))
        .ok_or_else(|| format!("`{text}` is not a percentage"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_moment_is_an_end_or_a_signal() {
        assert_eq!(parse_moment("exit"), Ok(Moment::Exit));
        assert_eq!(parse_moment("exit-start"), Ok(Moment::ExitStart));
        for text in ["signal", "signal:USR2", "signal:SIGUSR2"] {
            assert_eq!(parse_moment(text), Ok(Moment::Signal(Signal::SIGUSR2 as i32)));
        }
        for text in ["", "exit:USR2", "signal:", "signal:NONE", "end"] {
            assert!(parse_moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_of_frames_add_up() {
        let line = ["heapattach", "-p", "1", "--hide-frames", "a::*,b", "--hide-frames", "none"];
        let cli = Cli::try_parse_from(line).unwrap();
        assert_eq!(cli.attach.session.hide_frames, ["a::*", "b", "none"]);
    }
}
