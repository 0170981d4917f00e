//! Where the result of a check goes, and in which form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::json::JsonArg;
use heapattach_reach::Kind;

/// Forms, and where to write them.
#[derive(Clone, Debug, Args)]
pub struct OutletArgs {
    /// Print the result as JSON: of a program that is started, whose standard output is its own, to
    /// standard error, where nothing else of ours goes then, or to --report; or write it to FILE
    /// beside the text
    #[arg(
        long,
        value_name = "FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = JsonArg::parser()
    )]
    pub json: Option<JsonArg>,
    /// Write the result there; as for all files that are written, `-` is standard output, a shell's
    /// >(...) and /dev/fd/N are taken, and named pipes and links of other users are refused
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Write the result there as JUnit's XML, too
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the result there as SARIF 2.1.0, too
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Annotate the sources on GitHub, and add to the page of the step
    #[arg(long, value_enum, default_value_t, value_name = "WHEN")]
    pub github: GithubArg,
    /// Tell one by one what is not lost for certain, too
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    pub show: Vec<ShowArg>,
}

/// The value of `--github`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum GithubArg {
    /// In a workflow of GitHub
    #[default]
    Auto,
    /// In any case
    On,
    /// No
    Off,
}

/// A value of `--show`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShowArg {
    /// What the program can still get at
    Reachable,
    /// What only pointers to the inside of blocks lead to
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
