//! `heapattach -p PID`.

use clap::{Args, ValueEnum};
use heapattach_injector::attach::Loader;

use super::{EXPERT, session::SessionArgs};
use crate::choose_process::WhichArgs;
use heapattach_session::watch::options::WatchOptions;

/// `heapattach -p PID`.
#[derive(Clone, Debug, Args)]
pub struct AttachArgs {
    /// To which.
    #[command(flatten)]
    pub which: WhichArgs,
    /// How it is done.
    #[command(flatten)]
    pub session: SessionArgs,
    /// How the hooks get into the process. `map` needs no code of the process. A forced dlopen can
    /// deadlock, depending on where the thread is; `dlopen` waits for a thread at a safe place
    #[arg(help_heading = EXPERT, hide_short_help = true, long, value_enum, default_value_t, value_name = "HOW")]
    pub loader: LoaderArg,
    /// Attach even if a seccomp filter cannot be suspended or applies to the process's own loader, or
    /// if another version of heapattach left hooks; and overwrite the file of -o
    #[arg(help_heading = EXPERT, hide_short_help = true, long)]
    pub force: bool,
    /// The session of another heapattach: it ends with it, whatever ends that
    #[arg(hide = true, long, value_name = "PARENT")]
    pub ends_with: Option<i32>,
}

impl AttachArgs {
    /// What the session is told.
    pub fn watch_options(&self) -> WatchOptions {
        let (loader, force) = (self.loader.into(), self.force);
        WatchOptions { loader, force, ..self.session.watch_options() }
    }
}

/// The value of `--loader`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LoaderArg {
    /// Mapped from outside, by a few system calls
    #[default]
    Map,
    /// Loaded by the process itself, at the entry of an allocation function: a shared object that
    /// its loader and debuggers know
    Dlopen,
}

impl From<LoaderArg> for Loader {
    fn from(arg: LoaderArg) -> Self {
        match arg {
            LoaderArg::Map => Self::Map,
            LoaderArg::Dlopen => Self::Dlopen,
        }
    }
}
