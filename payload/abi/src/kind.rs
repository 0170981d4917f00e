//! The kinds of hooks: by where a call states how many bytes it asks for.
//!
//! The hooks of one kind are equal but for their index, so the injector may use any free one of
//! the right kind for a function. Their number is fixed when the payload is built.

/// Where the number of bytes stands when a hooked function is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ArgKind {
    /// Nowhere: `free` and its like. Counted with 0 bytes, a free of null too.
    None = 0,
    /// First argument: `malloc`, `valloc`, `pvalloc`.
    Arg0 = 1,
    /// Second argument: `realloc`, `aligned_alloc`, `memalign`, `mmap`, `munmap`.
    Arg1 = 2,
    /// Third argument: `posix_memalign`, the new size of `mremap`.
    Arg2 = 3,
    /// First argument times second: `calloc`.
    Product = 4,
}

impl ArgKind {
    /// All kinds, each at its own value.
    pub const ALL: [Self; KINDS] = [Self::None, Self::Arg0, Self::Arg1, Self::Arg2, Self::Product];

    /// How many hooks of this kind the payload holds.
    pub const fn hooks(self) -> usize {
        match self {
            Self::None | Self::Arg0 => 14,
            Self::Arg1 => 20,
            Self::Arg2 => 10,
            Self::Product => 6,
        }
    }

    /// The index of the first hook of this kind.
    pub const fn first_hook(self) -> usize {
        let mut first = 0;
        let mut kind = 0;
        while kind < self as usize {
            first += Self::ALL[kind].hooks();
            kind += 1;
        }
        first
    }
}

/// Number of kinds.
pub const KINDS: usize = 5;
/// Number of hooks of all kinds.
pub const MAX_HOOKS: usize = 64;

const _: () = assert!(ArgKind::Product.first_hook() + ArgKind::Product.hooks() == MAX_HOOKS);
const _: () =
    assert!(ArgKind::ALL[ArgKind::Product as usize] as usize == ArgKind::Product as usize);
