//! Where the result of a check goes, and in which form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::json::JsonArg;
use heapattach_reach::Kind;

/// Forms, and where to write them.
#[derive(Clone, Debug, Args)]
pub struct OutletArgs {
    /// Print the result as JSON, or write it to FILE beside the text
    ///
    /// With CMD JSON goes to standard error (alone), or to --report.
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Write the result to FILE
    ///
    /// As for all files: `-` is standard output, >(...) and /dev/fd/N work, named pipes and links of
    /// other users are refused.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the result to FILE as JUnit's XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the result to FILE as SARIF 2.1.0, too
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Annotate the sources on GitHub, and add to the summary of the step
    #[arg(hide_short_help = true, long, value_enum, default_value_t, value_name = "WHEN")]
    pub github: GithubArg,
    /// Print only leaks and errors: nothing of a program that leaks nothing
    #[arg(short, long)]
    pub quiet: bool,
    /// Show all calls of a stack, those of the runtime before `main`, a thread or a test, too
    #[arg(hide_short_help = true, long)]
    pub full_stacks: bool,
    /// List what is not certainly leaked, too
    #[arg(hide_short_help = true, long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub show: Vec<ShowArg>,
}

/// The value of `--github`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GithubArg {
    /// In a workflow of GitHub
    #[default]
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// A value of `--show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowArg {
    /// Blocks that pointers lead to
    Reachable,
    /// Blocks that only pointers to their inside lead to
    Possible,
}

impl From<ShowArg> for Kind {
    fn from(arg: ShowArg) -> Self {
        match arg {
            ShowArg::Reachable => Self::Reachable,
            ShowArg::Possible => Self::Possible,
        }
    }
}
