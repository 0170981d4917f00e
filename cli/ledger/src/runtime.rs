//! A language's runtime in the process, and how much of its memory is seen.

use heapattach_text::quantity::bytes;
use serde::{Deserialize, Serialize};

/// A runtime that was recognised.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// What it is, with its version if that is known.
    pub name: String,
    /// The path of the module that it is in.
    pub module: String,
    /// Whether the functions of its scripts are named.
    pub is_named: bool,
    /// What the hooks see of its memory, and what not.
    pub seen: String,
    /// Whether they see all of it.
    pub is_whole: bool,
    /// Bytes of pages that it mapped itself since the attach.
    pub mapped: u64,
    /// Bytes of these that are still mapped.
    pub mapped_live: u64,
    /// What is to be typed to see more; empty if nothing is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub more: String,
    /// Why its functions are not named, and what else is to be known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Runtime {
    /// What it is, in a few words.
    pub fn title(&self) -> String {
        let Self { name, seen, .. } = self;
        match (self.is_named, self.is_whole) {
            (true, true) => format!("{name}: its functions are named; {seen}"),
            (true, false) => format!("{name}: its functions are named"),
            (false, true) => format!("{name}: {seen}"),
            (false, false) => name.clone(),
        }
    }

    /// What is not seen of it, and how to see more, in a line; `None` if all is seen.
    pub fn blind(&self) -> Option<String> {
        let Self { more, mapped, mapped_live, .. } = self;
        let pages = match *mapped {
            0 => String::new(),
            mapped => format!(
                " ({} of pages mapped by it in the session, {} of them still)",
                bytes(mapped),
                bytes(*mapped_live)
            ),
        };
        let more = if more.is_empty() { String::new() } else { format!("; to see them: {more}") };
        self.unseen().map(|unseen| format!("{unseen}{pages}{more}"))
    }

    /// What is not seen of it, without numbers; `None` if all is seen.
    pub fn unseen(&self) -> Option<String> {
        (!self.is_whole).then(|| format!("{}: {}", self.name, self.seen))
    }

    /// All that could not be seen or named: a line each.
    pub fn gaps(&self) -> impl Iterator<Item = String> {
        let notes = self.notes.iter().map(|note| format!("{}: {note}", self.name));
        self.blind().into_iter().chain(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_told_with_what_is_not_seen_of_it_and_what_shows_that() {
        let runtime = Runtime {
            name: "CPython 3.12.1".to_owned(),
            is_named: true,
            seen: "small objects are not seen one by one".to_owned(),
            mapped: 3 << 20,
            mapped_live: 1 << 20,
            more: "PYTHONMALLOC=malloc ...".to_owned(),
            notes: vec!["a note".to_owned()],
            ..Runtime::default()
        };
        assert_eq!(runtime.title(), "CPython 3.12.1: its functions are named");
        let told: Vec<String> = runtime.gaps().collect();
        let line = "CPython 3.12.1: small objects are not seen one by one (3.0 MiB of pages mapped \
                    by it in the session, 1.0 MiB of them still); to see them: PYTHONMALLOC=malloc ...";
        assert_eq!(told, [line, "CPython 3.12.1: a note"]);
    }

    #[test]
    fn of_one_that_is_seen_whole_nothing_is_missing() {
        let seen = "each object is a block of realloc".to_owned();
        let runtime =
            Runtime { name: "Lua".to_owned(), seen, is_whole: true, ..Runtime::default() };
        assert_eq!(runtime.title(), "Lua: each object is a block of realloc");
        assert_eq!(runtime.gaps().count(), 0);
    }
}
