//! tcmalloc's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Tcmalloc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| heap::walk(input, &Tcmalloc, || heap::table("cc", &[], Some("libtcmalloc_minimal.so.4"))));
