//! `heapattach detach`.

use clap::Args;

const DETACH: &str = "\
Examples:
  heapattach detach -p 4711
  heapattach detach -p 4711 --force     # even if a session says that it is alive";

/// `heapattach detach`.
#[derive(Clone, Debug, Args)]
#[command(before_help = DETACH)]
pub struct DetachArgs {
    /// The process to clean up
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Clean up without asking whether a heapattach is attached
    #[arg(long)]
    pub force: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
