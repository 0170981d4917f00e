//! mimalloc's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Mimalloc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| heap::walk(input, &Mimalloc, || heap::table("cc", &[], Some("libmimalloc.so.2"))));
