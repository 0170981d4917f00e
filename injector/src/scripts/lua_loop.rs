//! The loop that runs scripts of Lua: no symbol names it. It is the largest function that the function which
//! calls one of a script leads to in a few steps, and it jumps to each operation by a table.

use std::{collections::HashSet, ops::Range};

use heapattach_process::{addr::RemoteAddr, image::images, memory::Memory, proc::maps::Mapping};

use super::cold_part::Table;
use crate::arch;

/// Steps from function to function, and functions that are looked at.
const STEPS: usize = 4;
const FUNCTIONS: usize = 256;
/// Addresses that are looked up in the table of functions: each takes some reads of the target.
const LOOKED_UP: usize = 4096;
/// It is never shorter, nor longer.
const SHORTEST: u64 = 2048;
const LONGEST: u64 = 1 << 17;

/// Where it lies, if that is known.
pub(super) fn loop_of(
    memory: &Memory,
    maps: &[Mapping<'_>],
    calls: &Range<RemoteAddr>,
) -> Option<Range<RemoteAddr>> {
    let images = images(memory, maps);
    let image = images.iter().find(|image| image.code.contains(&calls.start))?;
    let table = Table::read(memory, image.mapped?)?;
    let (mut known, mut next) = (vec![calls.clone()], vec![calls.clone()]);
    let mut looked_up = HashSet::new();
    let mut found: Option<Range<RemoteAddr>> = None;
    for _ in 0..STEPS {
        let mut led_to = Vec::new();
        for function in &next {
            let code = body(memory, function)?;
            for target in arch::led_to(&code, function.start) {
                if looked_up.len() == LOOKED_UP || !looked_up.insert(target) {
                    continue;
                }
                let Some(one) = table.containing(memory, target) else { continue };
                let is_new = one.start == target && image.code.contains(&target);
                if is_new && known.len() < FUNCTIONS && !known.contains(&one) {
                    known.push(one.clone());
                    led_to.push(one);
                }
            }
        }
        for one in &led_to {
            let longest = found.as_ref().map_or(SHORTEST, length);
            let is_longer = length(one) > longest && length(one) < LONGEST;
            let jumps = |code: Vec<u8>| arch::jumps_by_table(&code, one.start) > 0;
            if is_longer && body(memory, one).is_some_and(jumps) {
                found = Some(one.clone());
            }
        }
        next = led_to;
    }
    found
}

fn length(function: &Range<RemoteAddr>) -> u64 {
    function.end.offset_from(function.start).unwrap_or(0)
}

fn body(memory: &Memory, function: &Range<RemoteAddr>) -> Option<Vec<u8>> {
    memory.read_vec(function.start, usize::try_from(length(function).min(LONGEST)).ok()?).ok()
}
