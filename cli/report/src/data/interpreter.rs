//! An interpreter in the target.

use serde::{Deserialize, Serialize};

/// An interpreter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterpreterReport {
    /// What it is, with its version if that is known.
    pub name: String,
    /// Whether its functions are named.
    pub is_named: bool,
    /// Why not, or what else is to be known.
    pub notes: Vec<String>,
    /// Bytes of pages that it mapped itself since the attach, for small objects of its own.
    pub arenas: u64,
    /// Bytes of these that are still mapped.
    pub arenas_live: u64,
}

impl InterpreterReport {
    /// As a person reads it.
    pub fn words(&self) -> Vec<String> {
        let named = if self.is_named { ": its functions are named" } else { "" };
        let title = format!("{}{named}", self.name);
        std::iter::once(title).chain(self.notes.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_told_with_what_is_to_be_known_of_it() {
        let report = InterpreterReport {
            name: "CPython 3.12.1".to_owned(),
            is_named: true,
            notes: vec!["small objects".to_owned()],
            ..InterpreterReport::default()
        };
        let told = report.words();
        assert_eq!(told, ["CPython 3.12.1: its functions are named", "small objects"]);
    }
}
