//! Options that suppress leaks the user already knows.

use std::path::PathBuf;

use clap::Args;

use super::EXPERT;

/// Where rules come from, and what is told of them.
#[derive(Clone, Debug, Args)]
pub struct QuietArgs {
    /// Suppress the leaks that FILE names, as LeakSanitizer or valgrind do
    ///
    /// Lines `leak:PATTERN` are matched against function, file and module of every call; entries of
    /// valgrind are `Memcheck:Leak`. Can be given again.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,
    /// Report what the C library keeps for ever, too, and what runtimes do not free at exit (Ruby,
    /// Java's launcher, Emacs, rsync, collect2)
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub no_builtin_suppressions: bool,
    /// Do not use what may be built into the program: __lsan_default_suppressions,
    /// __lsan_default_options, __lsan_is_turned_off
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub no_embedded_suppressions: bool,
    /// Print which suppressions were used, and for how much
    #[arg(hide_short_help = true, long)]
    pub print_suppressions: bool,
    /// Print the lines that would suppress these leaks
    #[arg(hide_short_help = true, long)]
    pub gen_suppressions: bool,
    /// Fail if a line of --suppressions suppressed nothing
    #[arg(hide_short_help = true, long)]
    pub fail_on_unused_suppressions: bool,
}
