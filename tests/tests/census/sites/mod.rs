//! What a session knows of who allocated, in a moment after it.

mod likely;
mod sums;
