//! musl's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Mallocng;
use libfuzzer_sys::fuzz_target;

const STATIC: [&str; 4] = [
    "-static",
    "-DDIRECT=__real_",
    "-DWRAPPED",
    "-Wl,--wrap=malloc,--wrap=free,--wrap=realloc,--wrap=aligned_alloc,--wrap=malloc_usable_size",
];

fuzz_target!(|input: &[u8]| heap::walk(input, &Mallocng, || heap::table("musl-gcc", &STATIC, None)));
