//! `heapattach status`.

use clap::Args;

const STATUS: &str = "\
Examples:
  heapattach status
  heapattach status --json | jq '.[].pid'";

/// `heapattach status`.
#[derive(Clone, Debug, Args)]
#[command(before_help = STATUS)]
pub struct StatusArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
