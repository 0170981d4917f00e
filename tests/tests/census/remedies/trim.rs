//! `allocator --apply trim` and `arena-max`: a thread of the process calls a function of its allocator's own. The
//! resident set falls by what was foretold, blocks are as they were, under load as well; nothing of heapattach is left,
//! and the target lives if anything is killed meanwhile.

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    sample::points,
    seed::{Random, seed},
    skip::skip,
};
use serde_json::Value;

use crate::allocating::Allocating;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const REFUSED: i32 = 3;

pub fn apply(pid: i32, what: &str, fault: Option<&str>) -> Outcome {
    let pid = pid.to_string();
    let words = ["allocator", "-p", &pid, "--apply", what, "--max-pause", "60s", "--json"];
    let command = Heapattach::new(words);
    match fault {
        Some(fault) => command.fault(fault).run(),
        None => command.run(),
    }
}

pub fn applied(outcome: &Outcome) -> Value {
    let document: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    document["applied"].clone()
}

pub fn number(applied: &Value, name: &str) -> u64 {
    applied[name].as_u64().unwrap_or_else(|| panic!("no {name}: {applied}"))
}

/// All but the heap of brk, whose end the allocator moves.
fn maps(pid: i32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a map");
    text.lines().filter(|line| !line.ends_with("[heap]")).map(str::to_owned).collect()
}

/// The allocator that a program is started with.
pub fn preloaded(library: &str) -> Option<String> {
    let path = format!("/usr/lib/x86_64-linux-gnu/{library}");
    if std::path::Path::new(&path).exists() {
        return Some(path);
    }
    skip(&format!("no {path}"), "apt-get install libjemalloc2 libgoogle-perftools4");
    None
}

fn falls_by_what_was_foretold(environment: &[(&str, &str)], call: &str) {
    let arguments = ["2", "60000"];
    let Some(mut program) = Allocating::of("fragmented.c", &arguments, environment) else { return };
    let before = maps(program.pid());
    let told = applied(&apply(program.pid(), "trim", None).expect(DONE));
    println!("{told}");
    assert_eq!(told["call"], call);
    let fell = number(&told, "before") - number(&told, "after");
    let foretold = number(&told, "foretold");
    assert!(foretold > 50 << 20 && fell.abs_diff(foretold) * 10 <= foretold, "{told}");
    assert!(maps(program.pid()).iter().all(|line| !line.contains("heapattach")), "ours is gone");
    if call.starts_with("malloc_trim") {
        assert_eq!(maps(program.pid()), before);
    }
    assert!(program.is_well());
}

#[test]
fn glibc_returns_what_was_foretold() {
    falls_by_what_was_foretold(&[], "malloc_trim(0)");
}

#[test]
fn jemalloc_returns_what_was_foretold() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let settings = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", "dirty_decay_ms:-1")];
    falls_by_what_was_foretold(&settings, "mallctl(\"arena.4096.purge\")");
}

#[test]
fn tcmalloc_returns_what_was_foretold() {
    let Some(library) = preloaded("libtcmalloc.so.4") else { return };
    let settings = [("LD_PRELOAD", library.as_str()), ("TCMALLOC_RELEASE_RATE", "0")];
    falls_by_what_was_foretold(&settings, "MallocExtension_ReleaseFreeMemory()");
}

#[test]
fn without_a_thread_that_comes_by_nothing_is_called_and_nothing_stays() {
    let Some(mut program) = Allocating::of("fragmented.c", &["1", "30000", "rest"], &[]) else {
        return;
    };
    let before = maps(program.pid());
    let told = applied(&apply(program.pid(), "trim", None).expect(FAILED));
    let why = "no thread of the target came to a place where it may make a call of ours";
    assert!(told["error"].as_str().is_some_and(|error| error.contains(why)), "{told}");
    assert_eq!(maps(program.pid()), before);
    assert!(program.is_well());
}

#[test]
fn what_would_take_too_long_is_refused_and_not_touched() {
    let Some(mut program) = Allocating::of("fragmented.c", &["2", "60000"], &[]) else { return };
    let pid = program.pid().to_string();
    let words = ["allocator", "-p", &pid, "--apply", "trim", "--max-pause", "20ms", "--json"];
    let told = applied(&Heapattach::new(words).run().expect(REFUSED));
    assert!(told["error"].as_str().is_some_and(|error| error.contains("--max-pause")), "{told}");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("untouched")), "{told}");
    assert!(program.is_well());
}

#[test]
fn arenas_are_limited_where_glibc_has_not_decided_yet() {
    let Some(mut program) = Allocating::of("fragmented.c", &["2", "2000"], &[]) else { return };
    let told = applied(&apply(program.pid(), "arena-max=3", None).expect(DONE));
    assert_eq!(told["setting_after"], "arena-max=3", "{told}");
    // With a limit and more than one arena it is fixed.
    let told = applied(&apply(program.pid(), "arena-max=7", None).expect(REFUSED));
    assert!(
        told["error"].as_str().is_some_and(|error| error.contains("MALLOC_ARENA_MAX")),
        "{told}"
    );
    assert!(program.is_well());
}

#[test]
fn the_target_lives_when_who_trims_is_killed_at_any_call_and_can_be_cleaned() {
    lives_when_killed("trim", &[]);
}

/// The same of what calls an allocator's own function, which leaves mappings as they are.
pub fn lives_when_killed(what: &str, environment: &[(&str, &str)]) {
    let arguments = ["2", "3000"];
    let start = || Allocating::of("fragmented.c", &arguments, environment);
    let Some(program) = start() else { return };
    let calls = apply(program.pid(), what, Some("trace")).calls();
    assert!(calls.len() > 8, "{calls:?}");
    drop(program);
    let (mut tried, mut random) = (0, Random::new(seed()));
    for (kind, most) in [("kill", 16), ("killfront", 8), ("fail", 8)] {
        for n in points(calls.len() as u64, most, &mut random) {
            let Some(mut program) = start() else { return };
            let before = maps(program.pid());
            let outcome = apply(program.pid(), what, Some(&format!("{kind}:{n}")));
            // One whose command was killed goes on, and finishes what it has only begun.
            let clean = poll(PATIENCE, || {
                let code = Heapattach::detach(program.pid()).run().code();
                // A thread of the allocator's own has a stack.
                let is_same = match what.starts_with("background") {
                    true => maps(program.pid()).iter().all(|line| !line.contains("heapattach")),
                    false => maps(program.pid()) == before,
                };
                (code == Some(DONE) && is_same).then_some(())
            });
            assert!(clean.is_some(), "{kind} at {n}: {:#?}", maps(program.pid()));
            assert!(program.is_well(), "{kind} at {n} of {calls:?}: {outcome:?}");
            let after = apply(program.pid(), what, None);
            assert!(
                matches!(after.code(), Some(DONE | REFUSED | FAILED)),
                "{kind} at {n}: {after:?}"
            );
            assert!(program.is_well(), "{kind} at {n}");
            tried += 1;
        }
    }
    println!("{tried} of {} calls were tried", calls.len());
}
