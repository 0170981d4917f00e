//! Which file of options is used.

use std::path::PathBuf;

use clap::Args;

/// `heapattach.toml`, another file, or none.
#[derive(Clone, Debug, Args)]
pub struct ConfigArgs {
    /// Use the options in FILE, not those of the nearest heapattach.toml
    ///
    /// That is looked for from this folder up to the root of the repository, or to your home. It has a
    /// table a command (check, run, attach); what the command line says has precedence.
    #[arg(hide_short_help = true, long, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,
    /// Do not use heapattach.toml
    #[arg(hide_short_help = true, long)]
    pub no_config: bool,
}
