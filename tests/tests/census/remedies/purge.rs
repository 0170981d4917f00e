//! `allocator --apply purge`: the resident set falls by what was foretold, blocks are as they were, also under
//! load, and the target lives if anything is killed meanwhile.

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    sample::points,
    seed::{Random, seed},
};
use serde_json::Value;

use super::trim::preloaded;
use crate::allocating::Allocating;

const DONE: i32 = 0;
const REFUSED: i32 = 3;

fn apply(pid: i32, fault: Option<&str>) -> Outcome {
    let pid = pid.to_string();
    let words = ["allocator", "-p", &pid, "--apply", "purge", "--max-pause", "60s", "--json"];
    let command = Heapattach::new(words);
    match fault {
        Some(fault) => command.fault(fault).run(),
        None => command.run(),
    }
}

fn applied(outcome: &Outcome) -> Value {
    let document: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["applied"].clone()
}

fn number(applied: &Value, name: &str) -> u64 {
    applied[name].as_u64().unwrap_or_else(|| panic!("no {name}: {applied}"))
}

/// With many dirty pages that stay.
fn with_dirty_pages() -> Option<Allocating> {
    Allocating::jemalloc(&["3", "30000"], "dirty_decay_ms:-1")
}

#[test]
fn the_resident_set_falls_by_what_was_foretold_and_no_hook_or_page_is_left() {
    let Some(mut program) = with_dirty_pages() else { return };
    let maps = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a map");
    let before = maps(program.pid());
    let told = applied(&apply(program.pid(), None).expect(DONE));
    let fell = number(&told, "before") - number(&told, "after");
    let foretold = number(&told, "foretold");
    println!("{told}");
    assert!(foretold > 10 << 20 && fell.abs_diff(foretold) * 10 <= foretold, "{told}");
    assert_eq!(maps(program.pid()), before);
    assert!(program.is_well());
    // There is nothing left to win.
    let again = applied(&apply(program.pid(), None).expect(REFUSED));
    assert!(
        again["error"].as_str().is_some_and(|error| error.contains("nothing to win")),
        "{again}"
    );
    assert!(program.is_well());
}

/// A block in a hundred is left: of a slab of four pages, one page.
#[test]
fn pages_of_slabs_without_a_block_go_back_too() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", "slab_sizes:1024-1024:4")];
    let arguments = ["2", "60000", "rest"];
    let Some(mut program) = Allocating::of("fragmented.c", &arguments, &environment) else {
        return;
    };
    let pid = program.pid().to_string();
    let empty = || {
        let look = ["heap", "-p", &pid, "--view", "pins", "--json"];
        let look = Heapattach::new(look).run().expect(DONE).stdout;
        let document: Value = serde_json::from_str(&look).expect("a document");
        number(&document["pins"], "empty")
    };
    // 1 200 slabs, and three pages in each.
    let before = empty();
    assert!(before >= 1200 * 3 * 4096, "{before}");
    let told = applied(&apply(program.pid(), None).expect(DONE));
    let (foretold, fell) =
        (number(&told, "foretold"), number(&told, "before") - number(&told, "after"));
    assert!(foretold >= before && fell.abs_diff(foretold) * 10 <= foretold, "{told}");
    let after = empty();
    assert!(after * 20 < before, "{after} B of {before} B are left");
    assert!(program.is_well());
}

#[test]
fn other_allocators_are_refused_and_not_touched() {
    let Some(mut program) = Allocating::start(&["2", "20000"], &[]) else { return };
    let told = applied(&apply(program.pid(), None).expect(REFUSED));
    assert!(told["error"].as_str().is_some_and(|error| error.contains("untouched")), "{told}");
    assert!(program.is_well());
}

/// Threads allocate, check and free without end; blocks of calloc are zero.
#[test]
fn blocks_are_as_they_were_left_under_load() {
    let Some(mut program) = Allocating::jemalloc(&["2", "1000", "loop"], "dirty_decay_ms:-1")
    else {
        return;
    };
    let calls = |pid: i32| {
        let pid = pid.to_string();
        let look = Heapattach::new(["allocator", "-p", &pid, "--json"]).run().expect(DONE);
        let document: Value = serde_json::from_str(&look.stdout).expect("a document");
        let arenas = document["allocators"][0]["arenas"].as_array().expect("arenas").clone();
        let bins =
            arenas.iter().flat_map(|arena| arena["bins"].as_array().cloned().unwrap_or_default());
        bins.filter_map(|bin| bin["nmalloc"].as_u64()).sum::<u64>()
    };
    let (mut done, mut last) = (0, 0);
    for _ in 0..15 {
        let outcome = apply(program.pid(), None);
        let told = applied(&outcome);
        match outcome.code() {
            Some(DONE) => done += 1,
            // Threads were in the middle of calls each time, or memory came as fast as it went.
            _ => assert!(told["error"].is_string(), "{outcome:?}"),
        }
        // It goes on.
        let now = calls(program.pid());
        assert!(now > last, "{now} calls after {last}");
        last = now;
        assert!(program.is_well(), "it aborted: {told}");
    }
    println!("{done} of 15 were applied; {last} blocks were allocated meanwhile");
}

#[test]
fn the_target_lives_when_who_purges_is_killed_at_any_call_and_can_be_cleaned() {
    let Some(program) = with_dirty_pages() else { return };
    let calls = apply(program.pid(), Some("trace")).calls();
    assert!(calls.iter().any(|call| call == "madvise"), "{calls:?}");
    drop(program);
    let (mut tried, mut random) = (0, Random::new(seed()));
    for (kind, most) in [("kill", 16), ("killfront", 8), ("fail", 8)] {
        for n in points(calls.len() as u64, most, &mut random) {
            let Some(mut program) = with_dirty_pages() else { return };
            let outcome = apply(program.pid(), Some(&format!("{kind}:{n}")));
            // One whose command was killed finishes what it began.
            poll(PATIENCE, || {
                let code = Heapattach::detach(program.pid()).run().code();
                (code == Some(DONE)).then_some(())
            });
            assert!(program.is_well(), "{kind} at {n} of {calls:?}: {outcome:?}");
            // All of it is sound: another goes through, or has nothing to do.
            let after = apply(program.pid(), None);
            assert!(matches!(after.code(), Some(DONE | REFUSED)), "{kind} at {n}: {after:?}");
            assert!(program.is_well(), "{kind} at {n}");
            tried += 1;
        }
    }
    println!("{tried} of {} calls were tried", calls.len());
}
