//! The user's terminal during a session: messages, progress, and, with `--follow`, which
//! places have most bytes in use.

mod follow;
pub mod progress;

use std::path::Path;

use heapattach_ledger::Mark;
use indicatif::ProgressBar;

use crate::{
    exit_status::Exit,
    output::{complain, print},
};
use heapattach_session::client::talk::Talk;

pub use follow::Follower;

/// What is said while a session lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    /// What happens, and on a terminal how it goes.
    Usual,
    /// Only what goes wrong.
    Errors,
    /// Nothing: data alone go where it would be said.
    Silent,
}

/// Standard error: a terminal, or something else.
#[derive(Debug)]
pub struct Terminal {
    verbosity: Verbosity,
    follower: Option<Follower>,
    bar: ProgressBar,
}

impl Terminal {
    /// Shows so much; places that hold most only with a `follower`.
    pub fn new(verbosity: Verbosity, follower: Option<Follower>) -> Self {
        Self { verbosity, follower, bar: ProgressBar::hidden() }
    }
}

impl Talk for Terminal {
    fn begin(&mut self) {
        if self.verbosity == Verbosity::Usual {
            self.bar = progress::spinner("attaching");
        }
    }

    fn say(&mut self, text: &str) {
        if self.verbosity == Verbosity::Usual {
            self.bar.suspend(|| complain(text));
        }
    }

    fn go_on(&mut self, how: String) {
        self.bar.set_message(how);
    }

    fn show(&mut self, file: Option<&Path>, mark: &Mark) -> bool {
        let Some(follower) = &mut self.follower else { return false };
        let text = follower.look(file, mark);
        self.bar.suspend(|| print(&text, Exit::Done));
        true
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
    }
}
