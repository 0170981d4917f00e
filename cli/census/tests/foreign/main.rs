//! Walks of live programs whose allocator is not the C library's, beside the programs' own tables.

mod counters;
mod hostile;
mod jemalloc;
mod mallocng;
mod mimalloc;
mod program;
mod tcmalloc;
