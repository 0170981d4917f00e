//! jemalloc's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Jemalloc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| heap::walk(input, &Jemalloc, || heap::table("cc", &[], Some("libjemalloc.so.2"))));
