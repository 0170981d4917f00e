//! What the payload says of itself: the descriptor at the start of its one section.
//!
//! All offsets count from the start of that section, which is mapped as it is: position
//! independent, without relocations. Only the cells are written, from outside, through the
//! target's `mem` file; the mapping is never writable.

use core::mem::offset_of;

use crate::kind::{KINDS, MAX_HOOKS};

/// `heapatt` and a zero.
pub const MAGIC: u64 = u64::from_le_bytes(*b"heapatt\0");
/// Version of everything in this crate.
pub const VERSION: u32 = 9;
/// The section that holds the descriptor, the code and the cells.
pub const SECTION: &str = ".heapattach";
/// The one exported symbol: the descriptor.
pub const SYMBOL: &str = "heapattach_payload";

/// The hooks of one kind.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindHooks {
    /// Index of the first.
    pub first: u32,
    /// Number of them.
    pub count: u32,
}

/// The descriptor.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Image {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Length of the hooks and the cells; the slow paths follow.
    pub text_len: u32,
    /// Offset of hook 0.
    pub hooks: u32,
    /// Distance from one hook to the next.
    pub hook_stride: u32,
    /// Offset of the cell for the address of the control page.
    pub control_cell: u32,
    /// Offset of the cell for the address of the index of threads.
    pub index_cell: u32,
    /// Offset of the cell for the address of the filter of samples, which leads to the region it is
    /// a part of.
    pub filter_cell: u32,
    /// Offset of `[u64; MAX_HOOKS]`: where each hook goes on.
    pub orig_cells: u32,
    /// Offset of code that calls `rt_sigreturn`; fit to be returned to.
    pub sigreturn: u32,
    /// Offset of `[u64; MAX_HOOKS]`: what a hook of some kinds needs besides. Of
    /// [`New`](crate::kind::HookKind::New) the function that does not throw, of
    /// [`Chosen`](crate::kind::HookKind::Chosen) the [`Form`](crate::form::Form), of other functions
    /// on blocks whether sizes are counted ([`crate::flow::COUNTS`]).
    pub second_cells: u32,
    /// Offset of `[u64; MAX_HOOKS]`: the function that tells how large a block of a hook's allocator is,
    /// or 0; then the same again: a function that tells whether a block is that allocator's, or 0. 0 in a
    /// payload that does not count by size.
    pub size_cells: u32,
    /// Distance from a hook of a kind that has one ([`HookKind::has_brief`](crate::kind::HookKind::has_brief)) to
    /// the brief one, which keeps no register that a stranger's call may change; 0 in a payload without.
    pub brief: u32,
    /// The hooks of each kind, by the value of the kind.
    pub kinds: [KindHooks; KINDS],
}

/// Size of the descriptor.
pub const IMAGE_BYTES: usize = size_of::<Image>();
/// Size of a cell.
pub const CELL_BYTES: usize = 8;
/// Size of all cells of originals, and of all second ones.
pub const ORIG_BYTES: usize = MAX_HOOKS * CELL_BYTES;

const _: () = assert!(offset_of!(Image, magic) == 0);
const _: () = assert!(offset_of!(Image, version) == 8);
const _: () = assert!(offset_of!(Image, text_len) == 12);
const _: () = assert!(offset_of!(Image, hooks) == 16);
const _: () = assert!(offset_of!(Image, hook_stride) == 20);
const _: () = assert!(offset_of!(Image, control_cell) == 24);
const _: () = assert!(offset_of!(Image, index_cell) == 28);
const _: () = assert!(offset_of!(Image, filter_cell) == 32);
const _: () = assert!(offset_of!(Image, orig_cells) == 36);
const _: () = assert!(offset_of!(Image, sigreturn) == 40);
const _: () = assert!(offset_of!(Image, size_cells) == 48);
const _: () = assert!(offset_of!(Image, brief) == 52);
const _: () = assert!(offset_of!(Image, kinds) == 56);
const _: () = assert!(IMAGE_BYTES == 144);

impl Image {
    /// Reads a descriptor from the first bytes of a section; `None` if there are too few.
    ///
    /// Nothing is checked, not even the magic.
    pub fn read(section: &[u8]) -> Option<Self> {
        let (words, _) = section.get(..IMAGE_BYTES)?.as_chunks::<4>();
        let word = |offset: usize| u32::from_le_bytes(words[offset / 4]);
        let kind = |index: usize| {
            let at = offset_of!(Self, kinds) + index * size_of::<KindHooks>();
            KindHooks { first: word(at), count: word(at + offset_of!(KindHooks, count)) }
        };
        Some(Self {
            magic: u64::from(word(0)) | u64::from(word(4)) << 32,
            version: word(offset_of!(Self, version)),
            text_len: word(offset_of!(Self, text_len)),
            hooks: word(offset_of!(Self, hooks)),
            hook_stride: word(offset_of!(Self, hook_stride)),
            control_cell: word(offset_of!(Self, control_cell)),
            index_cell: word(offset_of!(Self, index_cell)),
            filter_cell: word(offset_of!(Self, filter_cell)),
            orig_cells: word(offset_of!(Self, orig_cells)),
            sigreturn: word(offset_of!(Self, sigreturn)),
            second_cells: word(offset_of!(Self, second_cells)),
            size_cells: word(offset_of!(Self, size_cells)),
            brief: word(offset_of!(Self, brief)),
            kinds: core::array::from_fn(kind),
        })
    }
}
