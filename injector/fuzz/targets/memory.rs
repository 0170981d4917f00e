//! Lies in the memory of a process that never was.
#![no_main]

#[path = "../../tests/fabric/mod.rs"]
mod fabric;

use fabric::Fabric;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<(u16, u64, u8)>)| {
    let (gnu_hash, lies) = input;
    let fabric = Fabric::new(gnu_hash);
    for (place, value, how) in lies.into_iter().take(64) {
        fabric.lie(place, value, how);
    }
    fabric.explore();
});
