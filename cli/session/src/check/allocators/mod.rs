//! What allocators have: the memory that they mapped for themselves, and the blocks that they know from before
//! the attach. It reads what is kept of a moment, never a running target.

mod kept;
pub(super) mod maps;
pub(super) mod older;
