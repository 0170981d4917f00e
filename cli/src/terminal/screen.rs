//! What is shown, by a thread of its own: a terminal may take nothing for hours, and neither the signals
//! of the user nor the end of the session may wait for it.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use heapattach_ledger::Mark;
use indicatif::ProgressBar;

use super::{Follower, progress};
use crate::{
    exit_status::Exit,
    output::{complain, print},
};

/// What waits for a terminal that takes nothing; later messages are only counted.
const MOST_WAITING: usize = 1000;
/// A terminal that has not taken the last of it after so long takes nothing.
const LAST: Duration = Duration::from_secs(2);

/// A handle for the threads that write to the terminal.
#[derive(Clone, Debug, Default)]
pub struct Screen(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Something is in the queue, or it is empty for good.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Shown>,
    left_out: usize,
    /// How it goes; what came before has been overtaken.
    how: Option<String>,
    is_over: bool,
    is_shown: bool,
}

/// What is shown once.
#[derive(Debug)]
enum Shown {
    /// A line.
    Line(String),
    /// How much is in use where, at a moment that is marked in this file, if it has a name.
    Places(Option<PathBuf>, Mark),
    /// From now on the time of the session runs.
    Begun,
}

impl Screen {
    /// Shows from now on; a session that takes so long has a bar with the time that is left.
    pub fn start(&self, duration: Option<Duration>, follower: Option<Follower>) {
        let shared = Arc::clone(&self.0);
        let show = move || {
            Painter { shared, duration, follower, bar: progress::spinner("attaching") }.run()
        };
        // Without a thread nothing is shown.
        if thread::Builder::new().name("screen".to_owned()).spawn(show).is_err() {
            self.lock().is_shown = true;
        }
    }

    /// Shows a line; whether it comes in time to be shown.
    pub fn line(&self, text: String) -> bool {
        self.show(Shown::Line(text))
    }

    /// Shows the places that have most in use.
    pub fn places(&self, file: Option<PathBuf>, mark: Mark) {
        self.show(Shown::Places(file, mark));
    }

    /// The session has begun.
    pub fn begun(&self) {
        self.show(Shown::Begun);
    }

    /// How it goes; what was said of that before is overtaken.
    pub fn go_on(&self, how: String) {
        self.lock().how = Some(how);
        self.0.changed.notify_all();
    }

    /// Nothing more comes. Waits until all is shown, but not for a terminal that takes nothing.
    pub fn end(&self) {
        let deadline = Instant::now() + LAST;
        let mut queue = self.lock();
        queue.is_over = true;
        self.0.changed.notify_all();
        while !queue.is_shown {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn show(&self, shown: Shown) -> bool {
        let mut queue = self.lock();
        if queue.is_over {
            return false;
        }
        if queue.waiting.len() < MOST_WAITING {
            queue.waiting.push_back(shown);
        } else {
            queue.left_out += 1;
        }
        self.0.changed.notify_all();
        true
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that shows it.
struct Painter {
    shared: Arc<Shared>,
    duration: Option<Duration>,
    follower: Option<Follower>,
    bar: ProgressBar,
}

impl Painter {
    fn run(mut self) {
        let screen = Screen(Arc::clone(&self.shared));
        loop {
            let mut queue = screen.lock();
            while queue.waiting.is_empty() && queue.how.is_none() && !queue.is_over {
                queue = self.shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            let (shown, how) = (std::mem::take(&mut queue.waiting), queue.how.take());
            let left_out = std::mem::take(&mut queue.left_out);
            let is_over = queue.is_over && shown.is_empty() && how.is_none();
            drop(queue);
            shown.into_iter().for_each(|shown| self.show(shown));
            if left_out > 0 {
                self.show(Shown::Line(format!("{left_out} messages are left out")));
            }
            how.into_iter().for_each(|how| self.bar.set_message(how));
            if is_over {
                self.bar.finish_and_clear();
                screen.lock().is_shown = true;
                return self.shared.changed.notify_all();
            }
        }
    }

    fn show(&mut self, shown: Shown) {
        match shown {
            Shown::Line(text) => self.bar.suspend(|| complain(&text)),
            Shown::Places(file, mark) => {
                if let Some(follower) = &mut self.follower {
                    let text = follower.look(file.as_deref(), &mark);
                    self.bar.suspend(|| print(&text, Exit::Done));
                }
            }
            // A program that execs another begins once more; the time runs on.
            Shown::Begun => {
                if let Some(duration) = self.duration.take() {
                    progress::count_down(&self.bar, duration);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_something_to_say_does_not_wait_for_the_terminal() {
        let screen = Screen::default();
        // No thread shows anything: that is what a terminal is like that takes nothing.
        for number in 0..2 * MOST_WAITING {
            screen.line(number.to_string());
            screen.go_on(number.to_string());
        }
        let queue = screen.lock();
        assert_eq!((queue.waiting.len(), queue.left_out), (MOST_WAITING, MOST_WAITING));
    }

    #[test]
    fn all_is_shown_by_the_end() {
        let screen = Screen::default();
        screen.start(Some(Duration::from_secs(60)), None);
        screen.begun();
        screen.go_on("12 calls".to_owned());
        screen.end();
        let queue = screen.lock();
        assert!(queue.is_shown && queue.waiting.is_empty() && queue.how.is_none());
    }
}
