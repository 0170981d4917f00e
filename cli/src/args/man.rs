//! `heapattach man`.

use std::path::PathBuf;

use clap::Args;

const MAN: &str = "\
Examples:
  heapattach man | man -l -
  heapattach man /usr/local/share/man/man1";

/// `heapattach man`.
#[derive(Clone, Debug, Args)]
#[command(before_help = MAN)]
pub struct ManArgs {
    /// Where to write the pages of all commands
    pub folder: Option<PathBuf>,
}
