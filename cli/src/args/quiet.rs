//! Options that suppress leaks the user already knows.

use std::path::PathBuf;

use clap::Args;

/// Where rules come from, and what is told of them.
#[derive(Clone, Debug, Args)]
pub struct QuietArgs {
    /// Leave leaks out that a file names: lines `leak:PATTERN` as LeakSanitizer has them, matched
    /// against function, file and module of every call, or entries of valgrind. Can be given again
    #[arg(long, value_name = "FILE")]
    pub suppressions: Vec<PathBuf>,
    /// Tell of what the C library keeps for ever, too, and of what runtimes do not free at exit (Ruby,
    /// Java's launcher, Emacs, rsync, collect2)
    #[arg(long)]
    pub no_builtin_suppressions: bool,
    /// Do not look for the list that a program may have been built with, in its function
    /// __lsan_default_suppressions
    #[arg(long)]
    pub no_embedded_suppressions: bool,
    /// Print which suppressions were used, and for how much
    #[arg(long)]
    pub print_suppressions: bool,
    /// Print the lines that would leave these leaks out
    #[arg(long)]
    pub gen_suppressions: bool,
    /// Fail if a line of --suppressions left nothing out
    #[arg(long)]
    pub fail_on_unused_suppressions: bool,
}
