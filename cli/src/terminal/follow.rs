//! `--follow`: the places with most bytes in use, again and again, out of what was recorded until
//! then. Done by the command, so that the tracing process has nothing to do with it.

use std::{
    io::stdout,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use heapattach_text::quantity::clock;
use heapattach_verdict::subject::{Ask, Subject};

use heapattach_ledger::{Ledger, Mark};
use heapattach_recording::{Recording, Store};
use heapattach_view::{Colour, Ink, Page, Span, write_sites};

/// Places of one look.
const LINES: usize = 10;
/// What is marked is in the file after so long at the latest, or the disk has trouble.
const PATIENCE: Duration = Duration::from_secs(2);

/// Looks at a recording that is being written.
#[derive(Debug)]
pub struct Follower {
    store: Option<Store>,
    full_names: bool,
}

impl Follower {
    /// Where the session is written to, unless it is said later, and whether names are shown whole.
    pub fn new(store: Option<Store>, full_names: bool) -> Self {
        Self { store, full_names }
    }

    /// How things were when this was marked.
    pub fn look(&mut self, file: Option<&Path>, mark: &Mark) -> String {
        let recording = wait_for_mark(mark, || match (file, &self.store) {
            (Some(file), _) => Recording::open(file).ok(),
            (None, store) => store.as_ref().and_then(Store::read),
        });
        let page = || Page::for_stream(Colour::Auto, &stdout());
        recording.map_or("nothing is recorded yet".to_owned(), |recording| {
            let mut ledger = recording.ledger(None);
            if !self.full_names {
                ledger.shorten_names();
            }
            text(&ledger, mark, page())
        })
    }
}

/// A recording that has this mark; without it, if the disk takes too long.
pub fn wait_for_mark(mark: &Mark, open: impl Fn() -> Option<Recording>) -> Option<Recording> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let recording = open();
        let is_there = recording.as_ref().is_some_and(|recording| recording.marks().contains(mark));
        if is_there || Instant::now() > deadline {
            return recording;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The same table as that of a report, of fewer lines.
fn text(ledger: &Ledger, mark: &Mark, mut page: Page) -> String {
    let after = clock(Duration::from_millis(mark.at_ms));
    page.line([Span::new(Ink::Bold, format!("after {after}"))]);
    let ask = Ask { limit: LINES, ..Ask::default() };
    write_sites(&Subject::of(ledger), &ask, &mut page);
    page.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    #[test]
    fn those_that_hold_most_come_first_in_the_table_of_a_report() {
        let mark = Mark { at_ms: 1500, why: String::new() };
        let text = text(&sample::ledger(), &mark, Page::new(None, false));
        let expected = "\
after 1.5 s
ALL       in use: 102.5 KiB in 1 010 blocks

  in use  part           allocated  freed  where
62.5 KiB  61 %  ██████▏   93.8 KiB   33 %  make_node (list.c:12)
                                           from grow_list (list.c:40) < main (main.c:7)
40.0 KiB  39 %  ███▉      40.0 KiB  never  main (main.c:7)
";
        assert_eq!(text, expected);
    }
}
