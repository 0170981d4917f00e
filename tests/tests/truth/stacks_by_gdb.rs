//! Every call stack heapattach records is the one that gdb sees at the same moment, frame by frame.

use heapattach_tests::{
    compile::{Source, fixture, is_there},
    fixture::Launch,
    oracle::{Comparison, Gdb, KINDS, Oracle, Session, Truth},
    real::python,
    seed::{Random, seed},
    skip::skip,
};

/// The step of all fixtures that makes some hundred allocations.
const FEW: u64 = 3;
/// Fewer prove little.
const ENOUGH: u64 = 300;
/// Damages tried on the stacks of a program.
const DAMAGES: usize = 60;

fn is_what_gdb_sees(what: &str, launch: impl FnOnce() -> Option<Launch>) {
    if !Gdb::is_there() {
        return skip("no gdb with python here", "apt-get install gdb");
    }
    let Some(oracle) = Oracle::new() else { return };
    let Some(launch) = launch() else { return };
    let [preload, tables] = oracle.environment();
    let mut fixture = launch.env(preload.0, preload.1).env(tables.0, tables.1).start();
    let (pid, seed) = (fixture.pid(), seed());
    println!("{what}, seed {seed}");
    // What libc allocates once is there.
    fixture.step(FEW, seed);
    let session = Session::start(&oracle, pid);
    let gdb = Gdb::attach(&oracle, pid);
    fixture.step(FEW, seed);
    let table = gdb.end(&oracle.table(pid));
    let places = oracle.places(pid);
    let recorded = session.end().recorded;
    fixture.finish();

    let truth = Truth { table: &table, certain: &table.counts, places: &places };
    let comparison = Comparison::of(&recorded, truth);
    comparison.assert_good(what, ENOUGH, 1.0);
    comparison.assert_same_counts(what);
    // It is not just content with everything.
    let mut random = Random::new(seed);
    let mut draw =
        |below: usize| usize::try_from(random.between(0, below as u64)).expect("below a usize");
    for turn in 0..DAMAGES {
        let mut damaged = recorded.clone();
        let index = draw(damaged.len());
        let stack = &mut damaged[index];
        let at = 1 + draw(stack.frames.len() - 1);
        stack.damage(turn % KINDS, at);
        let comparison = Comparison::of(&damaged, truth);
        let found = comparison.judge(ENOUGH, 1.0).is_err() || !comparison.differing.is_empty();
        assert!(found, "damage {} at {at} of {:x?}: {comparison}", turn % KINDS, recorded[index]);
    }
}

#[test]
fn of_c() {
    is_what_gdb_sees("stacks.c by gcc", || Launch::new("stacks.c"));
}

#[test]
fn of_c_by_clang() {
    if !is_there("clang") {
        return skip("no clang here", "apt-get install clang");
    }
    is_what_gdb_sees("stacks.c by clang", || {
        Launch::of(&Source::new("stacks.c").compiler("clang"))
    });
}

#[test]
fn of_cpp() {
    is_what_gdb_sees("stacks.cpp", || Launch::new("stacks.cpp"));
}

#[test]
fn of_rust() {
    is_what_gdb_sees("stacks.rs", || Launch::new("stacks.rs"));
}

#[test]
fn of_python() {
    let Some(python) = python() else {
        return skip("no python3 here", "apt-get install python3");
    };
    let script = fixture("python_stacks.py");
    let launch = Launch::program(&python).arg(script).env("PYTHONMALLOC", "malloc");
    is_what_gdb_sees("python3", || Some(launch));
}
