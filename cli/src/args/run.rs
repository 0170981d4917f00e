//! `heapattach run`.

use std::{ffi::OsString, path::PathBuf};

use clap::Args;

use super::{EXPERT, json, session::SessionArgs};
use crate::terminal::Verbosity;
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
    /// End the session when the program execs another one, and do not trace it: a debugger can then be
    /// attached to it
    #[arg(help_heading = EXPERT, hide_short_help = true, long, conflicts_with = "follow_forks")]
    pub no_follow_exec: bool,
    /// Overwrite the file of -o
    #[arg(hide_short_help = true, long, requires = "output")]
    pub force: bool,
    /// Write the report to FILE, not to standard error
    ///
    /// As for all files: `-` is standard output, >(...) and /dev/fd/N work, named pipes and links of
    /// other users are refused.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// How much is said: where JSON goes to standard error nothing else does.
    pub fn verbosity(&self) -> Verbosity {
        let is_json = json::is_instead(self.session.json.as_ref()) && self.report.is_none();
        if is_json { Verbosity::Silent } else { self.session.verbosity() }
    }

    /// What the tracing process is told.
    pub fn options(&self) -> RunOptions {
        RunOptions {
            command: self.command.clone(),
            follow_execs: !self.no_follow_exec,
            watch: self.session.watch_options(),
        }
    }
}
