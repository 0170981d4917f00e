//! What allocators count, read from outside, beside what they say themselves.

mod changed;
mod cost;
mod glibc;
mod jemalloc;
mod load;
mod mallocng;
mod mimalloc;
mod tcmalloc;
mod told;
