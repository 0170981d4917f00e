//! `heapattach help`.

use clap::Args;

const HELP: &str = "\
Examples:
  heapattach help                list the commands and the chapters of the guide
  heapattach help check          all options of a command
  heapattach help growth         a chapter of the guide";

/// `heapattach help`.
#[derive(Clone, Debug, Args)]
#[command(before_help = HELP)]
pub struct HelpArgs {
    /// A command, or a topic of the guide
    pub topic: Option<String>,
}
