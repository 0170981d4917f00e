//! Unwind information made by somebody who wishes us ill.
#![no_main]

use heapattach_injector::{
    addr::RemoteAddr,
    unwind::{Image, compile_bytes},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let at = RemoteAddr::new;
    let image =
        Image { code: at(0x1000)..at(0x8000_0000), header: at(0x10), end: at(0x3000), identity: 0 };
    let compiled = compile_bytes(bytes, at(0x2000), &image);
    assert!(compiled.rows.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(compiled.rows.len() <= 2 * bytes.len() + 2, "more rows than bytes");
});
