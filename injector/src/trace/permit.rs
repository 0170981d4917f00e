//! Whether a target may be stopped at all: asked once, right before the first stop. Until then nothing
//! of it has been touched, so that a session that the user gave up need not begin.

use std::{cell::RefCell, fmt};

use heapattach_process::fault;

/// The permission to stop a target.
#[derive(Default)]
pub struct Permit(RefCell<State>);

#[derive(Default)]
enum State {
    #[default]
    Granted,
    Open(Question),
    Denied,
}

type Question = Box<dyn FnOnce() -> bool + Send>;

impl Permit {
    /// Has `question` answered before the first stop.
    pub fn ask_first(&self, question: impl FnOnce() -> bool + Send + 'static) {
        self.0.replace(State::Open(Box::new(question)));
    }

    /// Whether the target may be stopped; what was answered once holds from then on.
    pub fn is_granted(&self) -> bool {
        let state = self.0.replace(State::Denied);
        let is_granted = match state {
            State::Granted => true,
            State::Denied => false,
            State::Open(question) => {
                fault::hold("stop");
                let is_granted = question();
                if is_granted {
                    fault::hold("permitted");
                }
                is_granted
            }
        };
        if is_granted {
            self.0.replace(State::Granted);
        }
        is_granted
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self.0.borrow() {
            State::Granted => "Granted",
            State::Open(_) => "Open",
            State::Denied => "Denied",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_is_asked_once_and_the_answer_holds() {
        let permit = Permit::default();
        assert!(permit.is_granted());
        for answer in [false, true] {
            let mut asked = 0;
            let (told, heard) = std::sync::mpsc::channel();
            permit.ask_first(move || told.send(()).is_ok() && answer);
            for _ in 0..3 {
                assert_eq!(permit.is_granted(), answer);
                asked += heard.try_iter().count();
            }
            assert_eq!(asked, 1);
        }
    }
}
