//! The objects of Go programs, beside what their own runtime counts: of each release that is here, stripped or
//! not; and the classic leaks.

mod classics;
mod figures;
mod filters;
mod locals;
mod paths;
mod profiled;
mod retained;

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    toolchain::{go_by, go_releases, go_with_c_and},
};
use serde_json::Value;

use crate::core_file::gcore_of;

/// A program that has told what its runtime counts, and stopped itself.
struct Program {
    child: Child,
    objects: u64,
    bytes: u64,
}

impl Program {
    fn start(program: &Path, mode: &str, count: u32) -> Self {
        let mut child = Command::new(program)
            .args([mode, &count.to_string()])
            // With more, threads of the runtime begin while it tells, and that takes objects.
            .env("GOMAXPROCS", "1")
            .stderr(Stdio::piped())
            .spawn()
            .expect("a program");
        let mut line = String::new();
        let output = child.stderr.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |name: &str| {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        let told = number("HeapObjects").zip(number("HeapAlloc"));
        let (objects, bytes) = told.unwrap_or_else(|| panic!("{mode}: {line}"));
        let status = format!("/proc/{}/status", child.id());
        while !std::fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
            std::thread::yield_now();
        }
        Self { child, objects, bytes }
    }

    fn look(&self, more: &[&str]) -> String {
        let pid = self.child.id().to_string();
        let words = ["heap", "-p", &pid];
        Heapattach::new(words.iter().chain(more)).run().expect(0).stdout
    }

    fn json(&self) -> Value {
        self.json_of(&[])
    }

    fn json_of(&self, more: &[&str]) -> Value {
        let text = self.look(&[&["--json"], more].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn amount(of: &Value) -> (u64, u64) {
    (of["blocks"].as_u64().expect("a number"), of["bytes"].as_u64().expect("a number"))
}

/// The report of a program whose runtime allocated nothing between its counts and the stop: once in a while it
/// begins a thread.
fn still(program: &Path, mode: &str, count: u32) -> Value {
    for _ in 0..5 {
        let program = Program::start(program, mode, count);
        let report = program.json();
        let (objects, bytes) = amount(&report["go"]["allocated"]);
        assert!(objects >= program.objects && bytes >= program.bytes, "{:#}", report["go"]);
        if (objects, bytes) == (program.objects, program.bytes) {
            return report;
        }
    }
    panic!("{}: the runtime's counts and ours differ five times", program.display());
}

#[test]
fn a_core_of_a_go_program_tells_what_the_process_tells() {
    // A core of such a program has a gigabyte.
    let programs = programs();
    for program in [programs.first(), programs.last()].into_iter().flatten() {
        let (live, folder) = (Program::start(program, "graph", 2), Folder::new("go-core"));
        let Ok(pid) = live.child.id().try_into() else { return };
        let Some(path) = gcore_of(pid, &folder) else { return };
        let words = ["heap", "--core", path.to_str().expect("a path of ours"), "--json"];
        let core = Heapattach::new(words).run().expect(0).stdout;
        let core: Value = serde_json::from_str(&core).expect("JSON");
        let essence = |document: &Value| {
            let mut go = document["go"].clone();
            go.as_object_mut().expect("a Go program").remove("took_ms");
            go
        };
        let live = live.json();
        assert!(live["go"]["error"].is_null(), "{live}");
        assert_eq!(essence(&live), essence(&core), "{}", program.display());
        assert_eq!(live["classes"], core["classes"], "{}", program.display());
    }
}

fn programs() -> Vec<PathBuf> {
    let all = go_releases();
    // The oldest, one between and the newest are enough.
    let chosen = [0, all.len() / 2, all.len().saturating_sub(1)];
    let mut programs = Vec::new();
    for (index, compiler) in all.iter().enumerate().filter(|(index, _)| chosen.contains(index)) {
        let flags: &[&[&str]] = match index {
            0 => &[&[], &["-ldflags=-s -w"]],
            _ => &[&[], &["-ldflags=-s -w"], &["-buildmode=pie"]],
        };
        programs.extend(flags.iter().map(|flags| go_by(compiler, "objects.go", flags)));
    }
    programs
}

#[test]
fn objects_are_those_of_the_runtime_to_the_digit_and_what_it_keeps_is_reached() {
    for program in programs() {
        let report = still(&program, "graph", 2);
        let go = &report["go"];
        let (allocated, reached) = (amount(&go["allocated"]), amount(&go["reached"]));
        // It has collected twice, and allocated a few objects since then.
        assert!(allocated.0 - reached.0 <= 8, "{}: {allocated:?} {reached:?}", program.display());
        let walker = &report["allocators"].as_array().expect("allocators")[0];
        assert_eq!(
            (&walker["name"], &walker["is_exact"]),
            (&"go".into(), &true.into()),
            "{walker:#}"
        );
        let is_stripped = program.to_string_lossy().contains("-s-w");
        let percent = amount(&go["typed"]).1 * 100 / reached.1;
        let least = if is_stripped { 0 } else { 97 };
        assert!(percent >= least, "{}: {percent} % are typed", program.display());
        if !is_stripped {
            let classes = report["classes"].as_array().expect("classes").iter();
            let blocks = |name: &str| {
                let mut own = classes.clone().filter(|row| row["name"] == name);
                own.next().map_or(0, |row| row["blocks"].as_u64().expect("a number"))
            };
            assert_eq!(blocks("main.frame"), 1000, "{}", program.display());
            // 111 in the tree, 1000 in the table, 100 in the channel.
            assert_eq!(blocks("main.tree"), 1211, "{}", program.display());
        }
    }
}

#[test]
fn objects_of_a_program_that_is_linked_by_others_or_looks_for_races_are_those_of_the_runtime() {
    for flag in ["-ldflags=-linkmode=external", "-race"] {
        let Some(program) = go_with_c_and("objects.go", &[flag]) else { return };
        let report = still(&program, "graph", 2);
        let go = &report["go"];
        let (allocated, reached) = (amount(&go["allocated"]), amount(&go["reached"]));
        assert!(allocated.0 - reached.0 <= 8, "{flag}: {allocated:?} {reached:?}");
        assert!(amount(&go["typed"]).1 * 100 >= reached.1 * 97, "{flag}: {}", go["typed"]);
    }
}

#[test]
fn the_first_screen_names_each_classic_leak() {
    let leaks = [
        ("array", 1, "KEPT BY", "main.head: 8.0 MiB in 1 object"),
        ("map", 100_000, "KEPT BY", "main.cache"),
        (
            "channel",
            1000,
            "LEAKED",
            "goroutines wait for ever in main.waitForEver, started by main.main",
        ),
        ("pool", 100, "KEPT BY", "main.kept"),
        ("finalizer", 1000, "KEPT BY", "$finalizer"),
        ("field", 1, "KEPT BY", "main.text"),
        ("unsafe", 1, "KEPT BY", "main.hidden"),
    ];
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "objects.go", &[]);
    for (mode, count, head, name) in leaks {
        let text = Program::start(&program, mode, count).look(&["--color", "never"]);
        let is_named = text.lines().any(|line| line.starts_with(head) && line.contains(name));
        assert!(is_named, "{mode}:\n{text}");
    }
}

#[test]
fn a_goroutine_whose_channel_is_in_a_variable_is_not_leaked_and_one_that_has_it_alone_is() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "objects.go", &[]);
    // The channel of all of these is in a variable.
    let report = Program::start(&program, "graph", 1).json();
    assert_eq!(report["go"]["leaked_goroutines"], 0, "{:#}", report["go"]["leaked"]);
    let report = Program::start(&program, "channel", 500).json();
    let leaked = report["go"]["leaked_goroutines"].as_u64().expect("a number");
    // A dead word of a stack can lead to a channel.
    assert!((495..=500).contains(&leaked), "{:#}", report["go"]["leaked"]);
}

#[test]
fn a_moment_file_has_what_holds_the_objects_and_goes_to_other_programs() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "objects.go", &[]);
    let folder = Folder::new("go-moment");
    let (moment, live) = (folder.0.join("a.heapattach-moment"), folder.0.join("live.pb.gz"));
    let [moment, live] = [&moment, &live].map(|path| path.to_str().expect("a path of ours"));
    let program = Program::start(&program, "map", 50_000);
    let printed = program.look(&["-o", moment, "--view", "go", "--color", "never"]);
    program.look(&["-o", live]);
    drop(program);
    let report = |more: &[&str]| {
        let words = ["report", moment].into_iter().chain(more.iter().copied());
        Heapattach::new(words).run().expect(0).stdout
    };
    assert_eq!(report(&["--view", "go"]), printed);
    let lines = report(&["--format", "collapsed"]);
    let line = lines.lines().find(|line| line.starts_with("main.cache;"));
    assert!(line.is_some(), "{lines}");
    // The file has fewer paths than a profile that is written at once, and all of its large ones.
    let bytes = lines.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    let document: Value = serde_json::from_str(&report(&["--json"])).expect("JSON");
    let (_, reached) = amount(&document["go"]["reached"]);
    let told: u64 = bytes.sum();
    assert!(told <= reached && told * 100 >= reached * 99, "{told} of {reached}");
    assert!(std::fs::metadata(live).is_ok_and(|file| file.len() > 100));
    let holders = &document["go"]["holders"];
    assert!(holders.as_array().is_some_and(|rows| rows.len() <= 5000), "{}", document["go"]);
}
