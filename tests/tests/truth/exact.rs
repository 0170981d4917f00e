//! What was recorded in full is what the program did: every place, block and byte.
//!
//! The fixtures keep an account of what they ask for without the allocator's help. Threads hand
//! each other blocks, resize what others allocated, and leave some behind.

use std::time::Duration;

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::Source,
    fixture::Launch,
    hazard::cycles,
    sample::is_soak,
    seed::seed,
    truth::{EXACT, MARK, ROUND, accounts, assert_exact, run, told},
};

/// Steps of `truth.c` alone: memory gets short, and no longer is.
const LIMIT: u64 = 4;
const UNLIMIT: u64 = 5;

/// Threads and what each does.
const LOADS: [(&str, &str); 3] = [("1", "20000"), ("4", "5000"), ("64", "500")];

fn rounds() -> u64 {
    if is_soak() { cycles() / 10 } else { 1 }
}

/// From the first instruction to the last.
fn is_exact_in_a_run(file: &str, options: &[&str]) {
    let Some(program) = Source::new(file).build() else { return };
    let seed = seed();
    for (threads, turns) in LOADS {
        for round in 0..rounds() {
            let number = seed.wrapping_add(round).to_string();
            let mut all = EXACT.to_vec();
            all.extend(options);
            let (outcome, report) = run(&all, &program, &[threads, turns, &number]);
            let truth = accounts(&outcome.stdout);
            assert_exact(
                &format!("{file} {threads} {turns} {number}, {options:?}"),
                &report,
                &truth,
            );
        }
    }
}

#[test]
fn a_run_of_c_is_exact() {
    is_exact_in_a_run("truth.c", &[]);
}

#[test]
fn a_run_of_c_is_exact_by_slots() {
    is_exact_in_a_run("truth.c", &["--hooks", "slots"]);
}

#[test]
fn a_run_of_c_is_exact_where_threads_wait_for_room_all_the_time() {
    is_exact_in_a_run("truth.c", &["--ring", "4KiB"]);
}

#[test]
fn a_run_that_is_to_be_exact_waits_without_being_told_to() {
    let Some(program) = Source::new("truth.c").build() else { return };
    let options = ["--all", "--hide-frames=none", "--ring", "4KiB"];
    let (outcome, report) = run(&options, &program, &["4", "5000", &seed().to_string()]);
    assert_exact("with small rings", &report, &accounts(&outcome.stdout));
}

#[test]
fn a_run_of_cpp_is_exact() {
    is_exact_in_a_run("truth.cpp", &[]);
}

#[test]
fn a_run_of_rust_is_exact() {
    is_exact_in_a_run("truth.rs", &[]);
}

/// Asks for the memory of an exception.
const THROWS: &str = "__cxa_allocate_exception";

/// From an attach on. What is older is there and is freed, resized and handed on in the session,
/// and none of it may be spoken of.
fn is_exact_from_an_attach_on(file: &str, hooks: Hooks) {
    let seed = seed();
    for (threads, turns) in LOADS {
        let Some(launch) = Launch::new(file) else { return };
        let mut fixture = launch.arg(threads).arg(turns).arg(seed.to_string()).start();
        for session in 0..2 + rounds() {
            fixture.step(ROUND, 0);
            fixture.step(MARK, 0);
            let command = Attached::command(fixture.pid(), hooks);
            let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
            let attached = Attached::start(command, &mut fixture);
            fixture.step(ROUND, 0);
            let report = attached.end();
            // Not before: to tell takes memory.
            let truth = accounts(&told(&mut fixture));
            fixture.assert_well();
            let what = format!("{file} {threads} {turns} {seed}, session {session}, {hooks:?}");
            assert_exact(&what, &report, &truth);
            // Nothing else in the process allocated memory, but its C++ library for exceptions.
            let mine: u64 = truth.values().map(|account| account.blocks).sum();
            let thrown = report.heap.sites.iter().filter(|site| site.is_in(THROWS));
            let thrown: f64 = thrown.map(|site| site.allocated.blocks.value).sum();
            let all = report.heap.allocated.blocks.value - thrown;
            assert!((mine as f64 - all).abs() < 0.5, "{what}: {all} blocks of {mine}");
        }
        fixture.finish();
    }
}

#[test]
fn c_is_exact_from_an_attach_on() {
    is_exact_from_an_attach_on("truth.c", Hooks::Auto);
}

#[test]
fn c_is_exact_from_an_attach_on_by_slots() {
    is_exact_from_an_attach_on("truth.c", Hooks::Slots);
}

#[test]
fn cpp_is_exact_from_an_attach_on() {
    is_exact_from_an_attach_on("truth.cpp", Hooks::Auto);
}

#[test]
fn rust_is_exact_from_an_attach_on() {
    is_exact_from_an_attach_on("truth.rs", Hooks::Auto);
}

#[test]
fn a_realloc_that_moves_neither_loses_nor_invents_a_leak_of_another_thread() {
    let Some(program) = Source::new("truth_race.c").build() else { return };
    let seed = seed();
    for cycle in 0..if is_soak() { 50 } else { 5 } {
        let number = seed.wrapping_add(cycle).to_string();
        let (outcome, report) = run(&EXACT, &program, &["5", "2000", &number]);
        let truth = accounts(&outcome.stdout);
        assert_exact(&format!("cycle {cycle}, seed {number}"), &report, &truth);
        assert!(truth["site_leak"].live > 0 && truth["site_moved"].blocks > 1000, "{truth:?}");
    }
}

#[test]
fn a_place_that_many_threads_come_upon_at_once_is_one_place() {
    let Some(program) = Source::new("truth_places.c").build() else { return };
    for cycle in 0..if is_soak() { 200 } else { 20 } {
        let threads = if cycle % 2 == 0 { "3" } else { "8" };
        let (outcome, report) = run(&EXACT, &program, &[threads, "800", "1"]);
        let what = format!("cycle {cycle}, {threads} threads");
        assert_exact(&what, &report, &accounts(&outcome.stdout));
        let places = report.heap.sites.iter().filter(|site| site.is_in("site_many"));
        // Eight hundred calls of one line.
        assert_eq!(places.count(), 1, "{what}");
    }
}

#[test]
fn what_fails_is_neither_an_allocation_nor_a_free() {
    let Some(program) = Source::new("truth.c").build() else { return };
    let seed = seed();
    for threads in ["1", "4"] {
        for cycle in 0..rounds() {
            let number = seed.wrapping_add(cycle).to_string();
            let (outcome, report) = run(&EXACT, &program, &[threads, "4000", &number, "limit"]);
            let truth = accounts(&outcome.stdout);
            assert_exact(&format!("{threads} threads, seed {number}"), &report, &truth);
        }
    }
}

#[test]
fn what_fails_in_a_session_is_neither_an_allocation_nor_a_free() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let mut fixture = launch.arg("4").arg("4000").arg(seed().to_string()).start();
    fixture.step(ROUND, 0);
    fixture.step(MARK, 0);
    let command = Attached::command(fixture.pid(), Hooks::Auto);
    let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
    let attached = Attached::start(command, &mut fixture);
    fixture.step(LIMIT, 0);
    fixture.step(ROUND, 0);
    fixture.step(UNLIMIT, 0);
    let report = attached.end();
    let truth = accounts(&told(&mut fixture));
    fixture.assert_well();
    assert_exact("under a limit", &report, &truth);
    fixture.finish();
}

#[test]
fn a_session_of_a_given_length_is_exact_too() {
    let Some(launch) = Launch::new("truth.c") else { return };
    let mut fixture = launch.arg("4").arg("2000").arg(seed().to_string()).start();
    fixture.step(ROUND, 0);
    fixture.step(MARK, 0);
    let window = Duration::from_secs(2);
    let command = Heapattach::attach(fixture.pid(), window, Hooks::Auto);
    let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
    let running = Attached::start(command, &mut fixture).into_command();
    fixture.step(ROUND, 0);
    let report = running.wait().expect(0).report();
    let truth = accounts(&told(&mut fixture));
    fixture.assert_well();
    assert_exact("two seconds", &report, &truth);
    fixture.finish();
}
