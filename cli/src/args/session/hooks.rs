//! Where to hook, and how much of a stack is told: the same for a session and for a check.

use clap::{Args, ValueEnum};
use heapattach_abi::stacks::USUAL_FRAMES;
use heapattach_entry::{functions::Function, user_hooks};
use heapattach_injector::attach::HookMode;

use super::super::EXPERT;
use heapattach_session::watch::options::HookOptions;

/// How functions are hooked, and what is told of their callers.
#[derive(Clone, Debug, Args)]
pub struct HookArgs {
    /// Where to hook: `entry` changes the first bytes of functions and misses no caller; `slots` changes
    /// only pointers in the tables of modules
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub hooks: HookArg,
    /// Hook a function of your own: a symbol, a name in the source, or an address in the program's file; FORM is malloc, calloc, realloc, memalign, free, alloc:size=argN,
    /// alloc:size=argN*argM, realloc:ptr=argN,size=argM or free:ptr=argN. It must not throw
    #[arg(hide_short_help = true, long, value_name = "FUNCTION=FORM", value_parser = user_hooks::parse)]
    pub hook: Vec<Function>,
    /// Record at most so many frames of a stack (1 to 255)
    #[arg(
        help_heading = EXPERT,
        hide_short_help = true,
        long,
        value_name = "FRAMES",
        default_value_t = USUAL_FRAMES,
        value_parser = clap::value_parser!(u32).range(1..=255),
        allow_hyphen_values = true
    )]
    pub max_depth: u32,
    /// Functions that are not named as the cause of an allocation, `*` for any text; adds to the built-in
    /// list of allocators, which `none` switches off
    #[arg(hide_short_help = true, long, value_name = "GLOB", value_delimiter = ',')]
    pub hide_frames: Vec<String>,
    /// Show functions with parameters and all arguments of templates
    #[arg(hide_short_help = true, long)]
    pub full_names: bool,
    /// Do not use or write the cache of what is known of modules (~/.cache/heapattach)
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub no_cache: bool,
}

/// The value of `--hooks`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HookArg {
    /// Entries where that is proved safe, slots elsewhere
    #[default]
    Auto,
    /// Slots only: no code is changed
    Slots,
    /// Entries only: functions that cannot be patched safely are not hooked
    Entry,
}

impl HookArgs {
    /// What the engine and the report are told.
    pub fn options(&self) -> HookOptions {
        HookOptions {
            mode: self.hooks.into(),
            asked: self.hook.clone(),
            max_depth: self.max_depth,
            hide_frames: self.hide_frames.clone(),
            full_names: self.full_names,
            cache: !self.no_cache,
        }
    }
}

impl From<HookArg> for HookMode {
    fn from(arg: HookArg) -> Self {
        match arg {
            HookArg::Auto => Self::Auto,
            HookArg::Slots => Self::Slots,
            HookArg::Entry => Self::Entry,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::Cli;

    #[test]
    fn patterns_of_frames_add_up() {
        let line = ["heapattach", "-p", "1", "--hide-frames", "a::*,b", "--hide-frames", "none"];
        let cli = Cli::try_parse_from(line).unwrap();
        assert_eq!(cli.attach.session.hooks.hide_frames, ["a::*", "b", "none"]);
    }
}
