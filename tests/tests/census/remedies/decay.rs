//! `allocator --apply dirty_decay_ms=N`: jemalloc keeps free pages for so long from then on, in arenas that are there
//! and those to come; what was there before comes back by the command that is told.

use heapattach_tests::command::{Heapattach, Outcome};
use serde_json::Value;

use super::trim::{applied, apply, lives_when_killed, number, preloaded};
use crate::allocating::Allocating;

const DONE: i32 = 0;
const REFUSED: i32 = 3;
const NAME: &str = "dirty_decay_ms";

/// A program with much free memory, which jemalloc keeps for so long.
fn program(settings: &str) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", settings)];
    Allocating::of("fragmented.c", &["2", "60000"], &environment)
}

/// The setting of each arena, as they have it.
fn arenas(pid: i32) -> Vec<i64> {
    let pid = pid.to_string();
    let told = Heapattach::new(["allocator", "-p", &pid, "--json"]).run().expect(DONE).stdout;
    let document: Value = serde_json::from_str(&told).expect("JSON");
    let arenas = document["allocators"][0]["arenas"].as_array().expect("arenas").iter();
    arenas.map(|arena| arena["settings"][NAME].as_i64().expect("a setting")).collect()
}

fn refused(outcome: Outcome, why: &str) {
    let told = applied(&outcome.expect(REFUSED));
    let error = told["error"].as_str().unwrap_or_default();
    assert!(error.contains(why) && error.contains("untouched"), "{told}");
}

#[test]
fn free_pages_are_returned_from_then_on_and_kept_again_when_it_is_taken_back() {
    let Some(mut program) = program("dirty_decay_ms:-1,muzzy_decay_ms:0,narenas:4") else { return };
    let pid = program.pid();
    let before = arenas(pid);
    assert!(before.iter().all(|ms| *ms == -1) && !before.is_empty(), "{before:?}");
    let told = applied(&apply(pid, "dirty_decay_ms=0", None).expect(DONE));
    println!("{told}");
    assert_eq!(told["setting_before"], "dirty_decay_ms=-1", "{told}");
    assert_eq!(told["setting_after"], "dirty_decay_ms=0", "{told}");
    // That shows besides: what was free is not in memory any more.
    let fell = number(&told, "before").saturating_sub(number(&told, "after"));
    assert!(fell > 50 << 20, "{told}");
    assert_eq!(arenas(pid), vec![0; before.len()]);
    refused(apply(pid, "dirty_decay_ms=0", None), "already");
    let back = told["setting_before"].as_str().expect("a setting");
    let told = applied(&apply(pid, back, None).expect(DONE));
    assert_eq!(told["setting_after"], back, "{told}");
    assert_eq!(arenas(pid), before);
    assert!(program.is_well());
}

#[test]
fn what_is_said_is_what_was_done_and_how_to_take_it_back() {
    let Some(mut program) = program("dirty_decay_ms:20000") else { return };
    let pid = program.pid().to_string();
    let words = ["allocator", "-p", &pid, "--apply", "dirty_decay_ms=30000"];
    let told = Heapattach::new(words).run().expect(DONE).stdout;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("dirty_decay_ms=20000 before, dirty_decay_ms=30000 after"), "{told}");
    assert!(told.contains("and of those to come"), "{told}");
    assert!(told.contains("taken back by --apply dirty_decay_ms=20000"), "{told}");
    assert!(program.is_well());
}

#[test]
fn another_allocator_is_refused_and_not_touched() {
    let Some(mut program) = Allocating::of("fragmented.c", &["2", "2000"], &[]) else { return };
    refused(apply(program.pid(), "muzzy_decay_ms=0", None), "a setting of jemalloc");
    assert!(program.is_well());
}

#[test]
fn the_target_lives_when_who_sets_it_is_killed_at_any_call() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", "narenas:2")];
    lives_when_killed("dirty_decay_ms=500", &environment);
}
