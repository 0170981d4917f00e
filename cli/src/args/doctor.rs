//! `heapattach doctor`.

use clap::Args;
use heapattach_entry::{functions::Function, user_hooks};

use super::{EXPERT, session::HookArg};
use crate::choose_process::WhichArgs;

const DOCTOR: &str = "\
Examples:
  heapattach doctor              what this machine allows
  heapattach doctor -p 4711      what would be done to this process";

/// `heapattach doctor`.
#[derive(Clone, Debug, Args)]
#[command(before_help = DOCTOR)]
pub struct DoctorArgs {
    /// Which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// How it would be hooked
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub hooks: HookArg,
    /// Functions of the program's own, as for `-p`
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_name = "FUNCTION=FORM", value_parser = user_hooks::parse)]
    pub hook: Vec<Function>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}
