//! What lies where a way to a block begins.

use serde::{Deserialize, Serialize};

/// What a place is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// A variable that is always there.
    Variable {
        /// Its name, or that of its module.
        name: String,
        /// So far behind its beginning.
        offset: u64,
    },
    /// The stack of a thread.
    Frame {
        /// Which.
        thread: String,
        /// Whose frame, if the stack can be followed so far.
        function: Option<String>,
    },
    /// The thread-local variables of a thread.
    ThreadLocal {
        /// Which.
        thread: String,
    },
}

impl Holder {
    /// The holder in words, for text reports.
    pub fn words(&self) -> String {
        match self {
            Self::Variable { name, offset: 0 } => name.clone(),
            Self::Variable { name, offset } => format!("{name}+{offset}"),
            Self::Frame { thread, function: Some(function) } => format!("{function} in {thread}"),
            Self::Frame { thread, function: None } => format!("the stack of {thread}"),
            Self::ThreadLocal { thread } => format!("a thread-local variable of {thread}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_told_in_words() {
        let variable = |offset| Holder::Variable { name: "cache".to_owned(), offset };
        assert_eq!([variable(0).words(), variable(16).words()], ["cache", "cache+16"]);
        let thread = "thread 7 (worker)".to_owned();
        let frame = Holder::Frame { thread, function: Some("serve (a.c:3)".to_owned()) };
        assert_eq!(frame.words(), "serve (a.c:3) in thread 7 (worker)");
    }
}
