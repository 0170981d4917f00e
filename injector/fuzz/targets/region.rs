//! Any words in the memory that target and reader share.
#![no_main]

#[path = "../../tests/region/mod.rs"]
mod region;

use libfuzzer_sys::fuzz_target;
use region::Region;

fuzz_target!(|rounds: Vec<Vec<(u16, u64)>>| {
    let rounds: Vec<_> = rounds.into_iter().take(8).collect();
    let region = Region::new();
    // What an honest thread would have written, to be lied about.
    for position in 0..20 {
        region.write(position as usize % 3, position / 3, [1 << 48 | 0x1000 * position, 64, position]);
    }
    region.explore(&rounds);
});
