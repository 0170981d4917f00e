//! `heapattach top`.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use heapattach_text::quantity::{parse_duration, parse_size};
use heapattach_top::Tab;
use heapattach_view::Colour;

use crate::args::{EXPERT, choice::choice, recording_view::about_colour};

const TOP: &str = "\
Examples:
  heapattach top                               processes by growth, to choose from
  heapattach top -p 4711                       which code has memory in use, grows, allocates: now
  heapattach top session.heapattach            what another heapattach is writing
  heapattach top http://127.0.0.1:7070         what heapattach serve shows
  heapattach top -p 4711 --once                a screen as text, after one interval
  heapattach top -p 4711 --json | jq .live     a document a line, each interval

? lists the keys. q ends sessions that this command began; those of others go on.";

/// `heapattach top`.
#[derive(Clone, Debug, Args)]
#[command(before_help = TOP)]
pub struct TopArgs {
    /// Processes by number or name, recordings that are being written, or addresses of heapattach serve;
    /// without any, processes are listed
    #[arg(value_name = "PID|NAME|FILE|URL")]
    pub what: Vec<String>,
    /// A process; can be repeated
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Vec<i32>,
    /// Print once and end: as text, or with --json
    #[arg(long)]
    pub once: bool,
    /// Print JSON: a document a line, each interval
    #[arg(long)]
    pub json: bool,
    /// Between two looks
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    pub interval: Duration,
    /// What is shown first
    #[arg(long, default_value = "live", value_parser = choice(Tab::ALL, Tab::name, about_tab))]
    pub tab: Tab,
    /// Rows of --once and --json
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Mean bytes between samples
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_size)]
    pub every: u64,
    /// Keep the recordings in this folder, instead of removing them at the end
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// A file with the secret that a server wants to be told
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Tell threads apart
    #[arg(long)]
    pub by_thread: bool,
    /// So many columns of text with --once, of the terminal or 80 if not given
    #[arg(long, value_name = "COLUMNS")]
    pub width: Option<u16>,
    /// Whether to use colour
    #[arg(
        hide_short_help = true,
        long,
        default_value = "auto",
        value_parser = choice(Colour::ALL, Colour::name, about_colour),
        value_name = "WHEN"
    )]
    pub color: Colour,
    /// About how large a recording may become; beyond that, sums replace older events
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "SIZE", default_value = "16MiB", value_parser = parse_size)]
    pub max_size: u64,
    /// Watch the terminal of the command that started this: it is restored if that is killed
    #[arg(long, hide = true, exclusive = true)]
    pub guard_terminal: bool,
}

/// What is said of a tab.
fn about_tab(tab: Tab) -> &'static str {
    match tab {
        Tab::Live => "Sites by what is in use",
        Tab::Growth => "Sites by how much more is in use than a minute ago",
        Tab::Rate => "Sites by how much they allocate",
        Tab::Tree => "A tree of calls",
        Tab::Mapped => "Mapped pages",
        Tab::Types => "Types: how to have them told",
        Tab::Threads => "Threads",
        Tab::Sizes => "Blocks by size and lifetime",
        Tab::Log => "What the session says, and what is missing",
    }
}
