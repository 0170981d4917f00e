//! `heapattach run`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::session::SessionArgs;
use heapattach_session::tracer::RunOptions;

const RUN: &str = "\
Examples:
  heapattach run -- ./server --port 80
  heapattach run --all --report heap.txt -- make test      every block, exactly
  heapattach run --follow-forks -- nginx -g 'daemon off;'  every process that it forks, too";

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
    /// Write over the file of -o, if it is there
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Write the report there instead of to standard error; as for all files that are written, `-` is
    /// standard output, a shell's >(...) and /dev/fd/N are taken, and named pipes and links of other
    /// users are refused
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// What the tracing process is told.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            command: self.command.clone(),
            follow_execs: !self.no_follow_exec,
            watch: self.session.watch_options(),
        }
    }
}
