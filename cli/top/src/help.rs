//! The keys, told on a key.

use heapattach_view::{Ink, Span};

use crate::inked::{Line, broken};

const KEYS: [(&str, &str); 17] = [
    ("1 to 9", "what is shown: live, growth, rate, tree, mapped, types, threads, sizes, log"),
    ("left, right", "the tab beside; in a row: another of its stacks"),
    ("up, down", "move; also PageUp, PageDown, Home, End, j, k, the wheel"),
    ("enter", "a row in detail: its stacks with lines of source; a click on the row, too"),
    ("escape", "back"),
    ("space", "freeze: rows keep their places, figures go on"),
    ("/", "only rows, and in a tree only stacks, with this in a name; empty: all"),
    ("t", "merge threads, or tell them apart"),
    ("b", "make this moment the baseline"),
    ("d", "show what became different since the baseline"),
    ("m", "mark this moment in the recording (sessions of this command)"),
    (
        "w, h",
        "write a profile for go tool pprof, or the page for browsers, into the current folder",
    ),
    ("D", "detach: ends the session; what was seen stays"),
    ("tab", "the next process"),
    ("ctrl-z", "suspend"),
    ("q", "quit: ends sessions of this command; those of others go on"),
    ("?", "this list"),
];

/// All keys, in lines of so many columns.
pub fn lines(columns: u16) -> Vec<Line> {
    let told = KEYS.into_iter().flat_map(|(key, about)| {
        broken(Span::new(Ink::Bold, format!("{key:<12} ")), &about.into(), columns)
    });
    told.collect()
}
