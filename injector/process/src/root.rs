//! The kinds of place where a program can keep a pointer that no block of its heap holds. Words
//! alone: who looks there, and what a pointer counts for, is decided elsewhere.

use serde::{Deserialize, Serialize};

/// A kind of root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootKind {
    /// Registers of threads, vector registers too.
    Registers,
    /// Stacks of threads.
    Stacks,
    /// Thread-local variables, and what the C library keeps for a thread.
    Tls,
    /// Variables of the program and its libraries.
    Globals,
    /// Private memory that is none of these.
    Mapped,
    /// Memory shared with other processes.
    Shared,
    /// Memory of the heap that nothing is known of.
    Heap,
    /// What the kernel keeps: epoll, timers.
    Kernel,
    /// What the dynamic loader allocated: it has its own ways of keeping it.
    Loader,
    /// What the program declared as not leaked.
    Announced,
}

impl RootKind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Registers,
        Self::Stacks,
        Self::Tls,
        Self::Globals,
        Self::Mapped,
        Self::Shared,
        Self::Heap,
        Self::Kernel,
        Self::Loader,
        Self::Announced,
    ];

    /// Its name in reports and options, and what it is.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Registers => ("registers", "Registers of threads, vector registers too"),
            Self::Stacks => ("stacks", "Stacks of threads"),
            Self::Tls => ("tls", "Thread-local variables"),
            Self::Globals => ("globals", "Variables of the program and its libraries"),
            Self::Mapped => ("mapped", "Other memory that the program mapped for itself"),
            Self::Shared => ("shared", "Memory that it shares with others"),
            Self::Heap => ("heap", "Memory of the heap that nothing is known of"),
            Self::Kernel => ("kernel", "What the kernel keeps for it: epoll, timers"),
            Self::Loader => {
                ("loader", "What the dynamic loader allocated: it has its own ways of keeping it")
            }
            Self::Announced => {
                ("announced", "What the program declared as not leaked (heapattach.h)")
            }
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.words().0 == name)
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootSet(u16);

impl RootSet {
    /// Adds a kind.
    pub fn add(&mut self, kind: RootKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Whether a kind is in it.
    pub fn has(self, kind: RootKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether none is.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<RootKind> for RootSet {
    fn from_iter<I: IntoIterator<Item = RootKind>>(kinds: I) -> Self {
        let mut set = Self::default();
        kinds.into_iter().for_each(|kind| set.add(kind));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_added_and_nothing_else() {
        for kind in RootKind::ALL {
            let set: RootSet = [kind].into_iter().collect();
            let has: Vec<_> = RootKind::ALL.into_iter().filter(|&other| set.has(other)).collect();
            assert_eq!(has, [kind]);
        }
        assert!(RootSet::default().is_empty());
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in RootKind::ALL {
            assert_eq!(RootKind::named(kind.words().0), Some(kind));
        }
        assert_eq!(RootKind::named("heaps"), None);
    }
}
