//! The allocators whose counters are known.

use std::fmt::{self, Display, Formatter};

use serde::{Serialize, Serializer};

/// An allocator whose counters are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllocatorKind {
    /// The GNU C library's own.
    #[default]
    Glibc,
    /// jemalloc.
    Jemalloc,
    /// gperftools' or Google's tcmalloc.
    Tcmalloc,
    /// mimalloc.
    Mimalloc,
    /// musl's own.
    Mallocng,
    /// That of Go's runtime.
    Go,
}

impl AllocatorKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Glibc, Self::Jemalloc, Self::Tcmalloc, Self::Mimalloc, Self::Mallocng, Self::Go];

    /// As reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Mimalloc => "mimalloc",
            Self::Mallocng => "mallocng",
            Self::Go => "go",
        }
    }

    /// The one that reports call so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl Display for AllocatorKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for AllocatorKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_by_its_name() {
        for kind in AllocatorKind::ALL {
            assert_eq!(AllocatorKind::named(kind.name()), Some(kind));
        }
        assert_eq!(AllocatorKind::named("pymalloc"), None);
    }
}
