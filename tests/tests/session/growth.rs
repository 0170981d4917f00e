//! What is said of programs whose growth is known. Their windows are seconds long: a leak is one that
//! nothing excuses but that.

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use heapattach_tests::{command::Heapattach, compile::Source, skip::skip};
use serde_json::Value;

/// As the command has it, and as the program.
const WINDOW: (&str, &str) = ("12s", "12000");
/// Why a leak is not called one.
const SHORT: &str = "that takes 10 min 00 s";

/// A program, killed with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is said of the growth of a program, looked at in the middle of its life.
fn growth(program: &Path, what: &str, how: &[&str]) -> Value {
    growth_with(program, None, what, how)
}

/// The same of a program that has its memory from this library.
fn growth_with(program: &Path, library: Option<&Path>, what: &str, how: &[&str]) -> Value {
    let mut command = Command::new(program);
    command.args([what, WINDOW.1]).stdout(Stdio::piped());
    library.map(|library| command.env("LD_PRELOAD", library));
    let mut program = Program(command.spawn().expect("a program of ours"));
    let mut line = String::new();
    let stdout = program.0.stdout.take().expect("asked for");
    BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
    assert_eq!(line, "ready\n");
    let pid = program.0.id().to_string();
    let arguments = [&["-p", &pid, "--flow", "--duration", WINDOW.0, "--json"], how].concat();
    let outcome = Heapattach::new(&arguments).run().expect(0);
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let growth = report["summary"]["verdict"]["growth"].clone();
    println!("{what}: {growth:#}");
    assert!(growth.is_object(), "{report}");
    growth
}

/// What is said of the stacks of one function.
fn of<'a>(growth: &'a Value, function: &str) -> Vec<&'a Value> {
    let stacks = growth["stacks"].as_array().expect("a list");
    let is_its = |one: &&Value| one["place"].as_str().is_some_and(|p| p.starts_with(function));
    stacks.iter().filter(is_its).collect()
}

fn is(one: &Value, kind: &str) -> bool {
    one["kind"] == kind
}

#[test]
fn leaks_are_told_from_what_comes_and_goes_and_from_caches_and_loads() {
    let Some(program) = Source::new("growing.c").build() else { return };
    let program = &program;
    let all = thread::scope(|scope| {
        let looks = [
            ("steady", &["--every", "16K"]),
            ("leak", &["--every", "16K"]),
            ("same", &["--every", "16K"]),
            ("cache", &["--every", "16K"]),
            ("load", &["--every", "16K"]),
        ]
        .map(|(what, how)| scope.spawn(move || growth(program, what, how)));
        looks.map(|look| look.join().expect("it looks at it"))
    });
    let [steady, leak, same, cache, load] = all;

    assert!(!is(&steady, "growing") && !is(&steady, "leaking"), "{steady:#}");
    assert_eq!(steady["is_significant"], false, "{steady:#}");

    for (growth, function) in [(&leak, "leak_one"), (&same, "come_and_go")] {
        assert_eq!(growth["is_significant"], true, "{growth:#}");
        let told = of(growth, function);
        let is_told = told.iter().any(|one| is(one, "growing") && one["excuse"] == SHORT);
        assert!(is_told, "{growth:#}");
    }
    assert!(of(&leak, "come_and_go").iter().all(|one| !is(one, "growing")), "{leak:#}");

    for growth in [&cache, &load] {
        let stacks = growth["stacks"].as_array().expect("a list");
        assert!(stacks.iter().all(|one| one["excuse"] != SHORT), "{growth:#}");
    }
    assert!(of(&load, "come_and_go").iter().all(|one| !is(one, "leaking")), "{load:#}");
}

#[test]
fn the_rate_of_growth_is_that_of_the_program() {
    let Some(program) = Source::new("growing.c").build() else { return };
    let growth = growth(&program, "same", &["--all"]);
    // One block in twenty of ten a millisecond, each with the head of its chunk.
    let truth = 0.05 * 10_000.0 * 1008.0 * 60.0;
    let rate = &growth["bytes_per_minute"];
    let [value, low, high] = ["value", "low", "high"].map(|end| rate[end].as_f64().expect(end));
    assert!((value / truth - 1.0).abs() < 0.15, "{value} where {truth} is true");
    assert!(low < high && low > 0.5 * truth && high < 1.5 * truth, "{rate:#}");
}

/// An allocator's library, if it is here.
fn library(name: &str, package: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
    if !path.exists() {
        skip(&format!("no {name} here"), &format!("apt-get install {package}"));
        return None;
    }
    Some(path)
}

/// Blocks older than the attach are known by what the allocator itself says of them.
fn is_told_apart_with(name: &str, package: &str) {
    let Some(library) = library(name, package) else { return };
    let Some(program) = Source::new("growing.c").build() else { return };
    let (program, library) = (&program, &library);
    let [steady, leak, cache] = thread::scope(|scope| {
        let looks = ["steady", "leak", "cache"].map(|what| {
            let look = move || growth_with(program, Some(library), what, &["--every", "16K"]);
            scope.spawn(look)
        });
        looks.map(|look| look.join().expect("it looks at it"))
    });
    assert!(!is(&steady, "growing") && !is(&steady, "leaking"), "{name}: {steady:#}");
    assert_eq!(steady["is_significant"], false, "{name}: {steady:#}");
    assert_eq!(leak["is_significant"], true, "{name}: {leak:#}");
    let told = of(&leak, "leak_one");
    let is_told = told.iter().any(|one| is(one, "growing") && one["excuse"] == SHORT);
    assert!(is_told, "{name}: {leak:#}");
    assert!(of(&leak, "come_and_go").iter().all(|one| !is(one, "growing")), "{name}: {leak:#}");
    let stacks = cache["stacks"].as_array().expect("a list");
    assert!(stacks.iter().all(|one| one["excuse"] != SHORT), "{name}: {cache:#}");
}

#[test]
fn leaks_are_told_from_what_comes_and_goes_after_an_attach_to_jemalloc() {
    is_told_apart_with("libjemalloc.so.2", "libjemalloc2");
}

#[test]
fn leaks_are_told_from_what_comes_and_goes_after_an_attach_to_tcmalloc() {
    is_told_apart_with("libtcmalloc.so.4", "libgoogle-perftools4");
}

#[test]
fn leaks_are_told_from_what_comes_and_goes_after_an_attach_to_mimalloc() {
    is_told_apart_with("libmimalloc.so.2", "libmimalloc2.0");
}

#[test]
fn the_rate_of_growth_counts_what_the_allocator_takes() {
    let Some(library) = library("libjemalloc.so.2", "libjemalloc2") else { return };
    let Some(program) = Source::new("growing.c").build() else { return };
    let growth = growth_with(&program, Some(&library), "same", &["--all"]);
    // One block in twenty of ten a millisecond, each of jemalloc's size above a thousand.
    let truth = 0.05 * 10_000.0 * 1024.0 * 60.0;
    let rate = growth["bytes_per_minute"]["value"].as_f64().expect("a rate");
    assert!((rate / truth - 1.0).abs() < 0.15, "{rate} where {truth} is true");
}

#[test]
fn a_vector_that_is_copied_when_it_grows_is_said_to_grow() {
    let Some(program) = Source::new("growing_vector.cpp").build() else { return };
    let program = &program;
    let [steps, doubles, emptied] = thread::scope(|scope| {
        let looks = ["steps", "doubles", "emptied"]
            .map(|what| scope.spawn(move || growth(program, what, &["--every", "16K"])));
        looks.map(|look| look.join().expect("it looks at it"))
    });
    let grows =
        |growth: &Value| of(growth, "grow").into_iter().find(|one| is(one, "growing")).cloned();
    let stack = grows(&steps).unwrap_or_else(|| panic!("{steps:#}"));
    assert!(stack["is_one_block"] == true && stack["excuse"] == SHORT, "{steps:#}");
    let stack = grows(&doubles).unwrap_or_else(|| panic!("{doubles:#}"));
    assert!(stack["is_one_block"] == true, "{doubles:#}");
    for growth in [&steps, &doubles] {
        let headline = growth["headline"].as_str().expect("a sentence");
        assert!(headline.starts_with("Grows"), "{headline}");
    }
    assert!(grows(&emptied).is_none_or(|one| one["excuse"] != SHORT), "{emptied:#}");
}
