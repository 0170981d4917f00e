//! `heapattach detach`.

use clap::Args;

const DETACH: &str = "\
Examples:
  heapattach detach -p 4711";

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
