//! What allocators count, read from outside, beside what they say themselves.

mod changed;
mod glibc;
#[path = "../foreign/hostile.rs"]
#[allow(dead_code)]
mod hostile;
mod jemalloc;
mod mallocng;
mod mimalloc;
#[path = "../foreign/program.rs"]
#[allow(dead_code)]
mod program;
mod tcmalloc;
mod told;
