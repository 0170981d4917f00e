//! The language of a class, and with it how it is known.

use serde::{Deserialize, Serialize};

/// What tells the class of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Its table of virtual functions names it.
    #[default]
    Cpp,
    /// It has the address of its type, and is as long as that type says.
    Python,
    /// It has the addresses of its class and of a table of functions, and room for its properties.
    Php,
    /// Debug data declares the pointers that lead to it.
    C,
    /// The same of Rust.
    Rust,
    /// The runtime's own description of it leads to it, or to what holds it.
    Go,
}

impl Language {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpp => "C++",
            Self::Python => "Python",
            Self::Php => "PHP",
            Self::C => "C",
            Self::Rust => "Rust",
            Self::Go => "Go",
        }
    }
}

/// How a class is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certainty {
    /// The object says it, or the runtime's own description of it.
    #[default]
    Certain,
    /// Each pointer to it that has a declared type says it, and its length fits.
    Declared,
    /// What holds it has a form that only containers have.
    Shape,
}

impl Certainty {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Certain => "certain",
            Self::Declared => "declared",
            Self::Shape => "by shape",
        }
    }
}
