//! Unwind information that an attacker made.
#![no_main]

use heapattach_process::{addr::{Bias, RemoteAddr}, image::Image};
use heapattach_injector::inside::{Compiled, compile_bytes, compile_debug_frame};
use libfuzzer_sys::fuzz_target;

fn check(compiled: &Compiled, bytes: &[u8]) {
    assert!(compiled.rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(compiled.rows.len() <= 2 * bytes.len() + 2, "more rows than bytes");
}

fuzz_target!(|bytes: &[u8]| {
    let at = RemoteAddr::new;
    let mut image = Image {
        start: at(0),
        bias: Bias::new(0),
        code: at(0x1000)..at(0x8000_0000),
        mapped: None,
        identity: 0,
        build: None,
        path: String::new(),
        entry: None,
    };
    check(&compile_bytes(bytes, at(0x2000), &image), bytes);
    check(&compile_debug_frame(bytes, &image), bytes);
    image.bias = Bias::new(0x4000_0000);
    check(&compile_debug_frame(bytes, &image), bytes);
});
