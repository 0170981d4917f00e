//! `heapattach serve`.

use std::path::PathBuf;

use clap::Args;
use heapattach_serve::Address;
use heapattach_text::quantity::parse_size;

use super::PushArgs;
use crate::args::EXPERT;

const SERVE: &str = "\
Examples:
  heapattach serve -p 4711                               then: go tool pprof http://127.0.0.1:7070/debug/pprof/heap
  heapattach serve nginx redis-server --every 2MiB       all processes of these names; Prometheus: /metrics, /sd
  heapattach serve session.heapattach                    what another heapattach is writing
  heapattach serve -p 4711 --listen unix:/run/heap.sock  for who may open that file
  heapattach serve -p 4711 --push pyroscope+https://profiles.example   profiles to Pyroscope, every 15 s";

/// `heapattach serve`.
#[derive(Clone, Debug, Args)]
#[command(before_help = SERVE)]
pub struct ServeArgs {
    /// Processes by number or name, or recordings that are being written
    #[arg(value_name = "PID|NAME|FILE")]
    pub what: Vec<String>,
    /// A process; can be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Where to listen: ADDRESS:PORT, :PORT on this machine, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7070", value_parser = Address::parse)]
    pub listen: Address,
    /// Mean bytes between samples
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_size)]
    pub every: u64,
    /// Keep the recordings in this folder, instead of removing them at the end
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// A file with the secret that every reader must know (Authorization: Bearer, or http://SECRET@HOST); needed
    /// to listen where other machines can ask
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Another name by which this machine may be asked; can be repeated
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,
    /// Tell the arguments of the processes, too: they may be secret
    #[arg(long)]
    pub show_args: bool,
    #[command(flatten)]
    pub push: PushArgs,
    /// About how large a recording may become; beyond that, sums replace older events
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub max_size: u64,
}
