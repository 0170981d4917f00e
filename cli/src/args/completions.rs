//! `heapattach completions`.

use clap::{Args, ValueEnum};

const COMPLETIONS: &str = "\
Examples:
  source <(heapattach completions bash)
  heapattach completions zsh > ~/.zfunc/_heapattach
  heapattach completions fish > ~/.config/fish/completions/heapattach.fish";

/// `heapattach completions`.
#[derive(Clone, Debug, Args)]
#[command(before_help = COMPLETIONS)]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(required_unless_present = "pids")]
    pub shell: Option<Shell>,
    /// List processes instead, as the scripts have it done for `-p`
    #[arg(long, conflicts_with = "shell")]
    pub pids: bool,
}

/// A shell that can be told what to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}
