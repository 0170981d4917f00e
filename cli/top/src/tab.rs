//! What of a process is shown.

use heapattach_view::View;

/// A tab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tab {
    /// Sites by what is in use.
    #[default]
    Live,
    /// Sites by how much more is in use than a minute ago.
    Growth,
    /// Sites by how much they allocate.
    Rate,
    /// A tree of calls.
    Tree,
    /// Mapped pages.
    Mapped,
    /// Types of blocks.
    Types,
    /// Threads.
    Threads,
    /// Sizes and lifetimes of blocks.
    Sizes,
    /// What happened, and what is missing.
    Log,
}

impl Tab {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Live,
        Self::Growth,
        Self::Rate,
        Self::Tree,
        Self::Mapped,
        Self::Types,
        Self::Threads,
        Self::Sizes,
        Self::Log,
    ];

    /// As it is shown.
    pub fn title(self) -> &'static str {
        match self {
            Self::Live => "Live",
            Self::Growth => "Growth",
            Self::Rate => "Rate",
            Self::Tree => "Tree",
            Self::Mapped => "Mapped",
            Self::Types => "Types",
            Self::Threads => "Threads",
            Self::Sizes => "Sizes",
            Self::Log => "Log",
        }
    }

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Growth => "growth",
            Self::Rate => "rate",
            Self::Tree => "tree",
            Self::Mapped => "mapped",
            Self::Types => "types",
            Self::Threads => "threads",
            Self::Sizes => "sizes",
            Self::Log => "log",
        }
    }

    /// Whether it has rows of sites; all others are text.
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Live | Self::Growth | Self::Rate)
    }

    /// The views that its text is made of.
    pub fn views(self) -> &'static [View] {
        match self {
            Self::Tree => &[View::Tree],
            Self::Mapped => &[View::Mmap],
            Self::Threads => &[View::Threads],
            Self::Sizes => &[View::Sizes, View::Lifetimes],
            Self::Live | Self::Growth | Self::Rate | Self::Types | Self::Log => &[],
        }
    }
}
