//! Where memory was allocated: stacks, their calls, and the files of code.

use std::{
    collections::{BTreeMap, HashSet},
    io,
};

use heapattach_ledger::Ledger;

use super::{Put, identity};
use crate::{
    harmless,
    parquet::Kind::{self, Number, Text},
};

/// A row is a call of a stack. Depth 0 is the one that caused the allocation, those below 0 are allocators
/// that it called, those above called it. `end` tells why the stack ends there.
pub const STACKS: [(&str, Kind); 4] =
    [("stack", Number), ("depth", Number), ("frame", Number), ("end", Text)];

/// A row is a call at a place of the code; line 0 is one that is not known.
pub const FRAMES: [(&str, Kind); 7] = [
    ("frame", Number),
    ("function", Text),
    ("file", Text),
    ("line", Number),
    ("module", Number),
    ("offset", Number),
    ("is_inlined", Number),
];

/// A row is a file of code.
pub const MODULES: [(&str, Kind); 3] = [("module", Number), ("path", Text), ("build", Text)];

/// The rows of stacks; `places` are their numbers, and where they are in the ledger.
pub fn stacks(ledger: &Ledger, places: &[(i64, u32)], put: Put<'_>) -> io::Result<()> {
    let frames = identity::frames(ledger);
    for &(number, place) in places {
        let Some(stack) = ledger.stacks.get(place) else { continue };
        let calls = stack.locations.iter().filter_map(|&at| frames.get(at as usize)).flatten();
        let calls: Vec<_> = calls.collect();
        // Where there is nothing but allocators the innermost is taken for the cause.
        let cause = if (stack.cause as usize) < calls.len() { i64::from(stack.cause) } else { 0 };
        for (depth, frame) in (0_i64..).zip(calls) {
            put(vec![
                number.into(),
                (depth - cause).into(),
                (*frame).into(),
                stack.end.word().into(),
            ])?;
        }
    }
    Ok(())
}

/// The rows of their calls.
pub fn frames(ledger: &Ledger, places: &[(i64, u32)], put: Put<'_>) -> io::Result<()> {
    let numbers = identity::frames(ledger);
    let mut seen = HashSet::new();
    for &(_, place) in places {
        let locations = ledger.stacks.get(place).map_or(&[][..], |stack| stack.locations);
        for &at in locations {
            let Some(location) = ledger.locations.get(at as usize) else { continue };
            let known = numbers[at as usize].iter().zip(ledger.calls_at(location));
            for (&number, call) in known {
                if !seen.insert(number) {
                    continue;
                }
                put(vec![
                    number.into(),
                    harmless::line(&call.function.name).as_str().into(),
                    harmless::line_or_none(&call.function.file).as_str().into(),
                    i64::from(call.line.unwrap_or(0)).into(),
                    identity::module(call.module).into(),
                    location.offset.cast_signed().into(),
                    i64::from(call.is_inlined).into(),
                ])?;
            }
        }
    }
    Ok(())
}

/// The rows of modules; of those with one build the first.
pub fn modules(ledger: &Ledger, put: Put<'_>) -> io::Result<()> {
    let mut modules = BTreeMap::new();
    for module in &ledger.modules {
        modules.entry(identity::module(module)).or_insert(module);
    }
    modules.into_iter().try_for_each(|(number, module)| {
        let (path, build) =
            (harmless::line_or_none(&module.path), harmless::line_or_none(&module.build_id));
        put(vec![number.into(), path.as_str().into(), build.as_str().into()])
    })
}
