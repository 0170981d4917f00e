//! What the user is told during a session, independent of what shows it.

use std::path::Path;

use crate::client::message::Growing;
use heapattach_ledger::Mark;

/// Shows the user what happens. A method that is not implemented shows nothing.
pub trait Talk {
    /// The session begins: what shows something from now on may start threads, and its signals wait
    /// for the session already.
    fn begin(&mut self) {}

    /// The session with the target has begun; with that of the next program it does again.
    fn attached(&mut self) {}

    /// Something happened.
    fn say(&mut self, _text: &str) {}

    /// How it goes; the next time takes its place.
    fn go_on(&mut self, _how: String) {}

    /// A moment was marked, in this file if it has a name. Whether it was shown; else the mark is said.
    fn show(&mut self, _file: Option<&Path>, _mark: &Mark) -> bool {
        false
    }

    /// Memory certainly grows; that was said.
    fn grows(&mut self, _growing: Growing) {}

    /// Nothing of [`Talk::go_on`] is to stay.
    fn end(&mut self) {}
}
