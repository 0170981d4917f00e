//! The user's terminal during a session: messages, progress, and, with `--follow`, which
//! places have most bytes in use; and the command that the user wants run when memory grows.

mod follow;
mod on_growth;
pub mod progress;
mod screen;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use heapattach_ledger::Mark;
use heapattach_report::Report;
use heapattach_session::client::{message::Growing, talk::Talk};

pub use follow::Follower;
pub use on_growth::OnGrowth;
use screen::Screen;

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
    follows: bool,
    duration: Option<Duration>,
    on_growth: Option<OnGrowth>,
    screen: Screen,
}

impl Terminal {
    /// Shows so much; places that hold most only with a `follower`, and what is left of the time where
    /// there is a `duration`.
    pub fn new(
        verbosity: Verbosity,
        follower: Option<Follower>,
        duration: Option<Duration>,
    ) -> Self {
        let (follows, on_growth) = (follower.is_some(), None);
        Self { verbosity, follower, follows, duration, on_growth, screen: Screen::default() }
    }

    /// The same, with what is run when memory grows.
    #[must_use]
    pub fn with(self, on_growth: Option<OnGrowth>) -> Self {
        Self { on_growth, ..self }
    }

    /// What was to be run when memory grew is run to its end; the target was released before.
    pub fn finish(self, report: &Report) {
        if let Some(on_growth) = self.on_growth {
            on_growth.finish(report, self.verbosity);
        }
    }

    /// Whether there is a screen. Places are data: they are shown where nothing is said besides, too.
    fn is_shown(&self) -> bool {
        self.is_usual() || self.follows
    }

    /// Whether it is said what happens.
    fn is_usual(&self) -> bool {
        self.verbosity == Verbosity::Usual
    }
}

impl Talk for Terminal {
    fn begin(&mut self) {
        if self.is_shown() {
            self.screen.start(self.duration, self.follower.take());
        }
    }

    fn attached(&mut self) {
        if self.is_shown() {
            self.screen.begun();
        }
    }

    fn say(&mut self, text: &str) {
        if self.is_usual() {
            self.screen.line(text.to_owned());
        }
    }

    fn go_on(&mut self, how: String) {
        self.screen.go_on(how);
    }

    fn show(&mut self, file: Option<&Path>, mark: &Mark) -> bool {
        if self.follows {
            self.screen.places(file.map(PathBuf::from), mark.clone());
        }
        self.follows
    }

    fn grows(&mut self, growing: Growing) {
        if let Some(on_growth) = &mut self.on_growth {
            on_growth.found(growing, &self.screen);
        }
    }

    fn end(&mut self) {
        if self.is_shown() {
            self.screen.end();
        }
    }
}
