//! One program of the matrix, and what is expected of an attach to it.

use std::fmt;

use super::axes::{Allocator, Language, Libc, Linkage, Loader, Namespace, Value};

/// One value of each axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Whose `malloc`.
    pub allocator: Allocator,
    /// How it comes in.
    pub linkage: Linkage,
    /// What the program is written in.
    pub language: Language,
    /// Its C library.
    pub libc: Libc,
    /// Where it lives.
    pub namespace: Namespace,
    /// How the hooks come in.
    pub loader: Loader,
    /// What must come of it.
    pub expected: Expected,
}

/// What must come of an attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Each place's numbers are those that it says itself.
    Exact,
    /// The numbers in all are: the places ask through operators that are the allocator's own.
    ExactInAll,
    /// A refusal that is a row of the guide.
    Refused(&'static str),
}

impl Cell {
    /// Whether it has that value on its axis.
    pub fn has(&self, value: Value) -> bool {
        match value {
            Value::Allocator(allocator) => self.allocator == allocator,
            Value::Linkage(linkage) => self.linkage == linkage,
            Value::Language(language) => self.language == language,
            Value::Libc(libc) => self.libc == libc,
            Value::Namespace(namespace) => self.namespace == namespace,
            Value::Loader(loader) => self.loader == loader,
        }
    }

    /// Whether nothing is loaded into it when it starts.
    pub fn is_static(&self) -> bool {
        matches!(self.linkage, Linkage::Static | Linkage::StaticPie)
    }

    /// Whether its operators throw when there is no memory. mimalloc is built as C and cannot: it
    /// ends the program.
    pub fn throws(&self) -> bool {
        self.language == Language::Cpp && self.allocator != Allocator::Mimalloc
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allocator, linkage, language, libc, namespace, loader, .. } = self;
        let libc = format!("{libc:?} libc");
        write!(f, "{language:?} {allocator:?} {linkage:?} {libc} {namespace:?} {loader:?}")
    }
}
