//! glibc's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Glibc;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| heap::walk(input, &Glibc, || heap::table("cc", &[], None)));
