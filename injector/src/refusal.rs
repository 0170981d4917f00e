//! Why there is no attach, in a form for people: what was found, what is needed, what to type.

use std::fmt;

/// Why we do not attach. The target was not touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was found.
    pub value: String,
    /// What is needed instead.
    pub need: String,
    /// What to type or change.
    pub cure: String,
    /// Nothing the user can grant would help.
    pub unsupported: bool,
}

impl Refusal {
    /// A process that could be attached to, were something else as it is not.
    pub fn denied(value: impl Into<String>, need: &str, cure: impl Into<String>) -> Self {
        Self { value: value.into(), need: need.into(), cure: cure.into(), unsupported: false }
    }

    /// A kind of process that no permission makes possible.
    pub fn unsupported(value: impl Into<String>, need: &str, cure: impl Into<String>) -> Self {
        Self { unsupported: true, ..Self::denied(value, need, cure) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; need {}; {}", self.value, self.need, self.cure)
    }
}

impl std::error::Error for Refusal {}
