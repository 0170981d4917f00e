//! Whether hooked functions call other hooked functions, by what they allocate.

use heapattach_abi::control;

/// Which functions lead to others that are hooked, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nests {
    /// Those of blocks.
    pub blocks: bool,
    /// Those that map and unmap.
    pub maps: bool,
}

impl Nests {
    /// As the hooks are told of it.
    pub fn bits(self) -> u32 {
        let blocks = if self.blocks { control::NESTS } else { 0 };
        blocks | if self.maps { control::NESTS_MAPS } else { 0 }
    }

    /// What either of them says.
    pub fn or(self, other: Self) -> Self {
        Self { blocks: self.blocks || other.blocks, maps: self.maps || other.maps }
    }
}
