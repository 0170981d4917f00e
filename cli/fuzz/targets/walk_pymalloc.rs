//! CPython's heap with changed books (`heap/mod.rs`).
#![no_main]

mod heap;

use heapattach_census::walkers::Pymalloc;
use libfuzzer_sys::fuzz_target;

fn python() -> std::process::Command {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", "import sys; print(flush=True); sys.stdin.read()"]);
    command
}

fuzz_target!(|input: &[u8]| heap::walk(input, &Pymalloc, || python()));
