//! How long names are waited for: as long as the user likes, once the target is let go.

use std::time::Duration;

use heapattach_injector::target::Target;

use crate::client::{
    channel::{Heard, Line},
    message::Message,
};
use heapattach_report::{Report, Status};

/// Asked while files are read for names.
pub(super) struct Patience<'l> {
    pub(super) line: &'l mut Line,
    target: &'l Target,
    is_over: bool,
}

impl<'l> Patience<'l> {
    /// What the command said until now was meant for the session.
    pub(super) fn new(line: &'l mut Line, target: &'l Target) -> Self {
        while matches!(line.hear(), Some(Heard::Detach | Heard::Mark | Heard::Over)) {}
        Self { line, target, is_over: false }
    }

    /// Why there is no result. That the user did not wait is no failure of ours.
    pub(super) fn tell(&self, why: String, report: &mut Report) {
        report.error = Some(why);
        report.status = match report.status {
            Status::Done if self.is_over => Status::Incomplete,
            status => status.or_failed(),
        };
    }

    /// Whether to wait on. Once the user does not want to, that is so for all that is still to be read.
    pub(super) fn goes_on(&mut self) -> bool {
        self.goes_on_with("looking for names")
    }

    /// The same, where it is known what is done meanwhile.
    pub(super) fn goes_on_with(&mut self, what: &str) -> bool {
        if !self.is_over {
            self.line.send(&Message::Fetching(what.to_owned()));
            let heard = self.line.listen(self.target, Duration::ZERO);
            self.is_over = matches!(heard, Some(Heard::Detach | Heard::Gone));
        }
        !self.is_over
    }
}
