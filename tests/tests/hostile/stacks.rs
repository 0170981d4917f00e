//! Where a stack cannot be walked the walk ends, says why, and touches nothing it should not: the
//! program lives, and every allocation is counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    hazard::cycles,
    oracle::{OUTERMOST, RecordedStack, parse},
    page::Word,
    report::fresh_file,
};

/// Allocations of a session.
const ENOUGH: u64 = 20_000;

fn calls(fixture: &Fixture) -> u64 {
    fixture.page().get(Word::Malloc)
}

/// A session from one moment of rest to another, with `ENOUGH` allocations between them.
fn record(fixture: &mut Fixture, hooks: Hooks) -> Vec<RecordedStack> {
    let file = fresh_file();
    let command = Attached::command(fixture.pid(), hooks).arg("--all").arg("--on-full=wait");
    fixture.pause();
    let before = calls(fixture);
    let session = Attached::start(command.arg("--stacks").arg(&file), fixture);
    fixture.resume();
    wait_until("allocations", PATIENCE, || calls(fixture) >= before + ENOUGH);
    fixture.pause();
    let made = calls(fixture) - before;
    let report = session.end();
    fixture.assert_well();
    fixture.resume();
    let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let _ = fs::remove_file(&file);
    let stacks = parse(&text).unwrap_or_else(|why| panic!("{why}"));
    assert!(report.is_complete(), "lost: {:?}", report.heap.lost);
    assert_eq!(report.calls_of("malloc"), made, "calls of malloc");
    let recorded: u64 = stacks.iter().map(|stack| stack.allocations).sum();
    assert_eq!(recorded, made, "allocations with a stack");
    stacks
}

fn survives(hooks: Hooks) {
    let Some(launch) = Launch::new("hostile_stacks.c") else { return };
    let mut fixture = launch.start();
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    let mut outermost: BTreeSet<u64> = BTreeSet::new();
    for _ in 0..cycles().min(20) {
        for stack in record(&mut fixture, hooks) {
            outermost.extend(stack.frames.last().filter(|_| stack.end == OUTERMOST));
            *ends.entry(stack.end).or_default() += stack.allocations;
        }
    }
    fixture.finish();
    println!("ends of stacks: {ends:?}");
    // Threads near the end of their own stack can be walked; code without unwind tables cannot.
    let whole = ends.remove(OUTERMOST).unwrap_or(0);
    assert!(whole > 0 && !ends.is_empty(), "{whole} whole, the others {ends:?}");
    // All workers are threads that libc began at one place.
    assert_eq!(outermost.len(), 1, "the outermost frames of whole stacks: {outermost:x?}");
}

#[test]
fn a_program_with_hostile_stacks_lives_and_is_counted() {
    survives(Hooks::Auto);
}

#[test]
fn a_program_with_hostile_stacks_lives_and_is_counted_by_slots() {
    survives(Hooks::Slots);
}
