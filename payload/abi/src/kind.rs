//! The kinds of hooks: by what a call asks for, and by where its arguments say so.
//!
//! The hooks of one kind are equal but for their index, so the injector may use any free one of
//! the right kind for a function. Their number is fixed when the payload is built.

/// What a hooked function does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum HookKind {
    /// Gives back the block in its first argument: `free` and its like. Counted with 0 bytes, a
    /// free of null too.
    Free = 0,
    /// Hands out a block of as many bytes as its first argument: `malloc`, `valloc`, `pvalloc`.
    Malloc = 1,
    /// Of first argument times second: `calloc`.
    Calloc = 2,
    /// Exchanges the block in its first argument for one of its second: `realloc`.
    Realloc = 3,
    /// Hands out a block of its second argument: `aligned_alloc`, `memalign`.
    Memalign = 4,
    /// Of its third, and writes where it is into its first: `posix_memalign`.
    PosixMemalign = 5,
    /// Maps pages: `mmap`.
    Map = 6,
    /// Unmaps pages: `munmap`.
    Unmap = 7,
    /// Moves or resizes a mapping: `mremap`.
    Remap = 8,
    /// As `malloc`, but throws where there is none: C++'s `operator new`. What it allocates is recorded
    /// by calling, in its place, a function that answers null instead; only then it is its turn.
    New = 9,
    /// Hands out a block, takes one, or exchanges one for another; its arguments are where the hook's
    /// [`Form`](crate::form::Form) says.
    Chosen = 10,
}

impl HookKind {
    /// All kinds, each at its own value.
    pub const ALL: [Self; KINDS] = [
        Self::Free,
        Self::Malloc,
        Self::Calloc,
        Self::Realloc,
        Self::Memalign,
        Self::PosixMemalign,
        Self::Map,
        Self::Unmap,
        Self::Remap,
        Self::New,
        Self::Chosen,
    ];

    /// The kind with this value.
    pub const fn of(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Free,
            1 => Self::Malloc,
            2 => Self::Calloc,
            3 => Self::Realloc,
            4 => Self::Memalign,
            5 => Self::PosixMemalign,
            6 => Self::Map,
            7 => Self::Unmap,
            8 => Self::Remap,
            9 => Self::New,
            10 => Self::Chosen,
            _ => return None,
        })
    }

    /// Whether a brief hook stands beside each of this kind ([`Image::brief`](crate::image::Image::brief)).
    pub const fn has_brief(self) -> bool {
        !matches!(self, Self::Map | Self::Unmap | Self::Remap | Self::Chosen)
    }

    /// How many hooks of this kind the payload holds.
    pub const fn hooks(self) -> usize {
        match self {
            Self::Free | Self::Malloc => 12,
            Self::Memalign | Self::Realloc | Self::Chosen => 6,
            Self::Calloc | Self::New => 5,
            Self::Map | Self::PosixMemalign => 4,
            Self::Unmap | Self::Remap => 2,
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

    /// The kind of hook `index`.
    pub const fn of_hook(index: usize) -> Option<Self> {
        let mut kind = KINDS;
        while kind > 0 {
            kind -= 1;
            let first = Self::ALL[kind].first_hook();
            if index >= first && index < first + Self::ALL[kind].hooks() {
                return Some(Self::ALL[kind]);
            }
        }
        None
    }
}

/// Number of kinds.
pub const KINDS: usize = 11;
/// Number of hooks of all kinds.
pub const MAX_HOOKS: usize = 64;

const LAST: HookKind = HookKind::ALL[KINDS - 1];
const _: () = assert!(LAST.first_hook() + LAST.hooks() == MAX_HOOKS);
const _: () = assert!(LAST as usize == KINDS - 1);
