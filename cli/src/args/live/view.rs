//! `heapattach view`.

use std::path::PathBuf;

use clap::Args;
use heapattach_serve::Address;
use heapattach_text::quantity::parse_size;

use crate::args::EXPERT;

const VIEW: &str = "\
Examples:
  heapattach view -p 4711                  the page of a session, live, in the browser
  heapattach view session.heapattach       what another heapattach is writing, or wrote
  heapattach view a.heapattach-moment      where the memory was: a file of `heapattach heap -o`
  heapattach view redis-server -o FOLDER   the same by name; the recording is kept
  heapattach view -p 4711 --no-open        prints the link and opens nothing
  ssh -L 7070:localhost:7070 HOST heapattach view -p 4711 --listen :7070

A link has a secret: it leads in whoever has it. Without a terminal or a browser the link is printed.";

/// `heapattach view`.
#[derive(Clone, Debug, Args)]
#[command(before_help = VIEW)]
pub struct ViewArgs {
    /// Processes by number or name, recordings, or files of moments
    #[arg(value_name = "PID|NAME|FILE")]
    pub what: Vec<String>,
    /// A process; can be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Open no browser: the link is printed
    #[arg(long)]
    pub no_open: bool,
    /// Where to listen on this machine: ADDRESS:PORT or :PORT; 0 is any port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = Address::parse)]
    pub listen: Address,
    /// Mean bytes between samples
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_size)]
    pub every: u64,
    /// Keep the recordings in this folder, instead of removing them at the end
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Leave lines of source files out of the page
    #[arg(long)]
    pub no_source: bool,
    /// Another name by which this machine may be asked; can be repeated
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// About how large a recording may become; beyond that, sums replace older events
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub max_size: u64,
}
