//! `--on-growth`: a command is run once, when memory grows; at once, or with the result.

use std::{
    path::PathBuf,
    thread::{self, JoinHandle},
};

use heapattach_ledger::Mark;
use heapattach_recording::Recording;
use heapattach_report::Report;
use heapattach_session::client::{
    growth_command::{self, CommandError},
    message::Growing,
};
use heapattach_verdict::summary::Summary;

use super::{Verbosity, follow::wait_for_mark, screen::Screen};
use crate::output::complain;

/// The command, and how far it is.
#[derive(Debug)]
pub struct OnGrowth {
    words: Vec<String>,
    /// Whether the session ends with the growth, and the command is to see its result.
    is_last: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing has grown.
    Waiting,
    /// Something has, and the result is waited for.
    Due(Growing),
    /// The command runs, or has run; what went wrong, if that was not said.
    Running(JoinHandle<Option<CommandError>>),
}

impl OnGrowth {
    /// Not run yet.
    pub fn new(words: Vec<String>, is_last: bool) -> Self {
        Self { words, is_last, state: State::Waiting }
    }

    /// Memory grows: the first time something is done.
    pub fn found(&mut self, growing: Growing, screen: &Screen) {
        if !matches!(self.state, State::Waiting) {
            return;
        }
        if self.is_last {
            self.state = State::Due(growing);
            return;
        }
        let (words, screen) = (self.words.clone(), screen.clone());
        let run = move || {
            let verdict = verdict_by_now(growing.recording.as_ref(), &growing.mark);
            let error = growth_command::run(&words, &growing, &verdict).err();
            error.filter(|error| !screen.line(words_of(error)))
        };
        match thread::Builder::new().name("on-growth".to_owned()).spawn(run) {
            Ok(running) => self.state = State::Running(running),
            Err(error) => complain(&format!("--on-growth: no thread for it: {error}")),
        }
    }

    /// Runs the command if it was to see the result, and waits for its end, which is bounded. The target
    /// was released before.
    pub fn finish(self, report: &Report, verbosity: Verbosity) {
        let error = match self.state {
            State::Waiting => None,
            State::Due(growing) => {
                let verdict = report.summary.as_ref().map(|summary| summary.verdict.text.as_str());
                growth_command::run(&self.words, &growing, verdict.unwrap_or_default()).err()
            }
            State::Running(running) => running.join().ok().flatten(),
        };
        if let Some(error) = error.filter(|_| verbosity == Verbosity::Usual) {
            complain(&words_of(&error));
        }
    }
}

fn words_of(error: &CommandError) -> String {
    format!("--on-growth: {error}")
}

/// What is said of the recording up to a moment; nothing, if it has no file or that cannot be read.
fn verdict_by_now(path: Option<&PathBuf>, mark: &Mark) -> String {
    let open = || path.and_then(|path| Recording::open(path).ok());
    let recording = wait_for_mark(mark, open);
    recording.map_or(String::new(), |recording| Summary::new(&recording.ledger(None)).verdict.text)
}
