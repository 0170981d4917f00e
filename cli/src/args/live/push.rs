//! Where profiles are sent to.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use heapattach_export::Names;
use heapattach_push::Label;
use heapattach_text::quantity::{parse_duration, parse_size};

use crate::args::EXPERT;

/// What is sent, and where.
#[derive(Clone, Debug, Args)]
pub struct PushArgs {
    /// Send profiles: pyroscope+https://HOST, parca+..., otlp+...; can be repeated
    // Not parsed here: what is wrong would be repeated, and may hold a password.
    #[arg(long, value_name = "URL")]
    pub push: Vec<String>,
    /// Between two sendings
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration, requires = "push")]
    pub push_every: Duration,
    /// A file with the token, or USER:PASSWORD; with several --push one for each, in their order
    #[arg(long, value_name = "FILE", requires = "push")]
    pub push_token_file: Vec<PathBuf>,
    /// Certificates (PEM) of the authorities to believe, instead of this machine's
    #[arg(long, value_name = "FILE", requires = "push")]
    pub push_ca: Option<PathBuf>,
    /// A label of what is sent; an empty VALUE leaves out service_name, pid or hostname; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = Label::parse, requires = "push")]
    pub label: Vec<Label>,
    /// The tenant of a Pyroscope that has several
    #[arg(long, value_name = "NAME", requires = "push")]
    pub tenant: Option<String>,
    /// Who names code: `own`, or the `server`, which is sent addresses and build ids (Parca, OpenTelemetry)
    #[arg(long, value_enum, default_value_t, value_name = "WHO", requires = "push")]
    pub symbols: SymbolsArg,
    /// What waits for a backend, at most; then the oldest goes
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_size, requires = "push")]
    pub push_queue: u64,
    /// How old it becomes, at most: Pyroscope refuses what is older than an hour
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "TIME", default_value = "50min", value_parser = parse_duration, requires = "push")]
    pub push_age: Duration,
}

/// The value of `--symbols`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SymbolsArg {
    /// heapattach does: names are sent
    #[default]
    Own,
    /// Who is sent to: addresses and build ids are sent, and names only of what has no build id
    Server,
}

impl From<SymbolsArg> for Names {
    fn from(arg: SymbolsArg) -> Self {
        match arg {
            SymbolsArg::Own => Self::Ours,
            SymbolsArg::Server => Self::ByServer,
        }
    }
}
