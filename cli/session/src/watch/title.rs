//! What a process calls itself. Servers write there what each of their processes does: `postgres: alice db`.
//! A forked one begins with its parent's, so that it has to be asked for again.

use std::time::{Duration, Instant};

use heapattach_process::proc::Process;

/// How often it is asked for.
const PERIOD: Duration = Duration::from_secs(1);
/// A forked process has one of its own soon.
const FIRST: Duration = Duration::from_millis(100);

/// The title, as it was last.
#[derive(Debug)]
pub struct Title {
    text: Option<String>,
    next: Instant,
}

impl Title {
    /// Not asked for yet.
    pub fn new() -> Self {
        Self { text: None, next: Instant::now() + FIRST }
    }

    /// Asks, if it is time. What a process that is gone was called stays.
    pub fn look(&mut self, process: &Process) {
        let now = Instant::now();
        if now >= self.next {
            self.next = now + PERIOD;
            self.last(process);
        }
    }

    /// Asks now, and answers the last title that there was, if any.
    pub fn last(&mut self, process: &Process) -> Option<&String> {
        self.text = process.title().or(self.text.take());
        self.text.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_title_of_a_process_that_is_gone_is_its_last_one() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id().cast_signed()).unwrap();
        let mut title = Title::new();
        title.look(&process);
        assert_eq!(title.text, None, "it is not time");
        // It may still be this program.
        while title.last(&process).is_none_or(|text| text != "sleep 1000") {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(title.last(&process).map(String::as_str), Some("sleep 1000"));
    }
}
