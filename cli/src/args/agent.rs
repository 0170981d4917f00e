//! `heapattach agent`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const AGENT: &str = "\
Examples:
  heapattach agent --config agent.toml --dry-run     what would be done with which process, and why
  heapattach agent --config agent.toml               until Ctrl-C or SIGTERM; SIGHUP reads the file again
  heapattach agent --config agent.toml --allow web   after a target ended soon after an attach

heapattach help agents tells what is in the file.";

/// `heapattach agent`.
#[derive(Clone, Debug, Args)]
#[command(before_help = AGENT)]
pub struct AgentArgs {
    /// The file with the rules and limits
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Say what would be done with each process, and why; touch nothing
    #[arg(long)]
    pub dry_run: bool,
    /// With --dry-run: print JSON
    #[arg(long, requires = "dry_run")]
    pub json: bool,
    /// Allow again what was barred: the name of a rule or of an executable; then end
    #[arg(long, value_name = "NAME", conflicts_with = "dry_run")]
    pub allow: Option<String>,
    /// How events are told on standard error
    #[arg(long, value_name = "FORM", default_value = "plain")]
    pub log: LogForm,
}

/// How events are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogForm {
    /// A line of words
    Plain,
    /// A line of JSON
    Json,
}
