//! Allocators that are made of another one: what the program asks for is one allocation each, by the
//! place in the program, no matter what else runs for it. What a wrapper keeps for itself is its own.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use heapattach_tests::{
    attached::Attached,
    check,
    command::{Heapattach, Hooks, Outcome},
    compile::Source,
    report::{Report, fresh_file},
    truth::{EXACT, accounts, assert_exact, whole},
};

/// What the fixture is built with.
const SHAPES: [&str; 5] = ["-DPLAIN", "-DHEADER", "-DBOOKS", "-DLATER", "-DPOOL"];

/// How the allocator comes into the program.
#[derive(Clone, Debug)]
enum Way {
    /// Preloaded, one before the other.
    Preloaded(Vec<PathBuf>),
    /// It is the program's own.
    Own,
}

/// A program, and what its allocator is made of.
struct Wrapped {
    what: String,
    /// Whether what it asks for by itself is seen: the functions of the C library are further from a
    /// program's own than one hook reaches, and no slot leads to what the loader was asked for.
    sees_books: bool,
    program: PathBuf,
    way: Way,
}

fn library(flags: &[&str]) -> Option<PathBuf> {
    flags.iter().fold(Source::new("wrapper.c"), |source, flag| source.flag(flag)).build()
}

fn preloaded(libraries: &[&[&str]]) -> Option<Wrapped> {
    let program = Source::new("wrapped.c").build()?;
    let built: Option<Vec<PathBuf>> = libraries.iter().map(|flags| library(flags)).collect();
    let what = format!("preloaded {libraries:?}");
    Some(Wrapped { what, sees_books: true, program, way: Way::Preloaded(built?) })
}

fn own(shape: &str, named: bool) -> Option<Wrapped> {
    let source = Source::new("wrapped.c").flag("-DITSELF").flag(shape);
    let source = if named { source.flag("-DNAMED") } else { source };
    let what = format!("own {shape}{}", if named { ", by name" } else { "" });
    Some(Wrapped { what, sees_books: named, program: source.build()?, way: Way::Own })
}

/// What the allocator says it was asked for: blocks, calls of free, and its own blocks.
#[derive(Clone, Copy, Debug)]
struct Told {
    asked: u64,
    freed: u64,
    own: u64,
    own_live: u64,
}

fn told(output: &str) -> Told {
    let line = output.lines().find_map(|line| line.strip_prefix("wrapper "));
    let line = line.unwrap_or_else(|| panic!("no wrapper told: {output}"));
    let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
    let [asked, freed, own, own_live] = numbers[..] else { panic!("four numbers: {line}") };
    Told { asked, freed, own, own_live }
}

impl Wrapped {
    /// Its arguments behind what starts it.
    fn command(&self, words: &[&str]) -> Vec<String> {
        let mut command = Vec::new();
        if let Way::Preloaded(libraries) = &self.way {
            let list: Vec<String> =
                libraries.iter().map(|path| path.display().to_string()).collect();
            command = vec!["env".to_owned(), format!("LD_PRELOAD={}", list.join(":"))];
        }
        command.push(self.program.display().to_string());
        command.extend(words.iter().map(|&word| word.to_owned()));
        command
    }

    fn run(&self, options: &[&str], words: &[&str]) -> (Outcome, Report) {
        let file = fresh_file();
        let mut command = Heapattach::new(["run", "--json", "--report"]).arg(&file);
        command = options.iter().fold(command, |command, option| command.arg(*option));
        command = self.command(words).into_iter().fold(command.arg("--"), Heapattach::arg);
        let outcome = command.run().expect(0);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(&file);
        let report = serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{}: {error}: {}", self.what, outcome.stderr));
        (outcome, report)
    }

    /// What it was asked for, as far as that is to be seen.
    fn told(&self, output: &str) -> Told {
        let told = told(output);
        if self.sees_books { told } else { Told { own: 0, own_live: 0, ..told } }
    }
}

/// Calls of functions that hand out blocks, and of those that take them.
fn calls(report: &Report) -> (u64, u64) {
    let of = |takes: bool| {
        let functions = report.functions.iter().filter(|f| {
            !["mmap", "munmap", "mremap", "brk", "sbrk", "madvise", "__brk", "__sbrk", "__madvise"]
                .contains(&f.function.as_str())
                && (f.function.ends_with("free")) == takes
        });
        functions.map(|f| f.calls).sum()
    };
    (of(false), of(true))
}

fn assert_counted_once(wrapped: &Wrapped, hooks: &str, threads: &str) {
    let what = format!("{}, {hooks}, {threads} threads", wrapped.what);
    let options = [&EXACT[..], &["--hooks", hooks]].concat();
    let (outcome, report) = wrapped.run(&options, &[threads, "4000"]);
    assert_exact(&what, &report, &accounts(&outcome.stdout));
    let truth = wrapped.told(&outcome.stdout);
    let blocks = whole(report.heap.allocated.blocks.value);
    assert_eq!(blocks, truth.asked + truth.own, "{what}: blocks of {truth:?}\n{report:#?}");
    assert_eq!(
        calls(&report),
        (truth.asked + truth.own, truth.freed),
        "{what}: calls of {truth:?}"
    );
    let books = report.heap.sites.iter().filter(|site| site.is_in("wrapper_book"));
    let (made, live) = books.fold((0, 0), |(made, live), site| {
        (made + whole(site.allocated.blocks.value), live + whole(site.live.blocks.value))
    });
    assert_eq!((made, live), (truth.own, truth.own_live), "{what}: its books");
}

fn all() -> impl Iterator<Item = Wrapped> {
    let single = SHAPES.into_iter().flat_map(|shape| {
        let jumps: &[&str] = &[shape, "-foptimize-sibling-calls"];
        [
            preloaded(&[&[shape]]),
            preloaded(&[jumps]),
            preloaded(&[&[shape, "-DNAMED"]]),
            own(shape, true),
            own(shape, false),
        ]
    });
    single.flatten()
}

#[test]
fn what_a_wrapper_is_asked_for_counts_once() {
    for wrapped in all() {
        assert_counted_once(&wrapped, "auto", "1");
        assert_counted_once(&wrapped, "auto", "4");
    }
}

#[test]
fn wrappers_of_wrappers_count_once() {
    let deep: [&[&[&str]]; 3] = [
        &[&["-DPLAIN"], &["-DHEADER"]],
        &[&["-DHEADER"], &["-DLATER"]],
        &[&["-DPOOL"], &["-DHEADER"], &["-DPLAIN", "-foptimize-sibling-calls"]],
    ];
    for wrapped in deep.into_iter().filter_map(preloaded) {
        let (outcome, report) = wrapped.run(&EXACT, &["3", "4000"]);
        let truth = accounts(&outcome.stdout);
        assert_exact(&wrapped.what, &report, &truth);
        let blocks = whole(report.heap.allocated.blocks.value);
        let (handed_out, _) = calls(&report);
        assert_eq!(handed_out, blocks, "{}: {report:#?}", wrapped.what);
        // Besides its own, the program has allocated no more than what its output and threads take.
        let own: u64 = truth.values().map(|account| account.blocks).sum();
        assert!(blocks - own < 20, "{}: {blocks} blocks, {own} its own", wrapped.what);
    }
}

#[test]
fn wrappers_count_once_by_slots() {
    // What a library was told by the loader is in no slot: there its books are not seen.
    for wrapped in SHAPES.into_iter().filter_map(|shape| preloaded(&[&[shape, "-DNAMED"]])) {
        assert_counted_once(&wrapped, "slots", "2");
    }
}

/// Within five standard deviations, and what a single sample stands for.
fn assert_near(what: &str, got: f64, truth: f64, size: f64, every: f64) {
    let part = 1.0 - (-size / every).exp();
    let deviation = (truth * (1.0 - part) / part).sqrt() + 3.0 / part;
    assert!((got - truth).abs() < 5.0 * deviation, "{what}: {got} instead of {truth}");
}

#[test]
fn samples_of_a_wrapper_are_of_what_was_asked_for() {
    for wrapped in all() {
        let what = format!("{}, sampled", wrapped.what);
        let options = ["--every", "8KiB", "--hide-frames=none", "--on-full", "wait"];
        let (outcome, report) = wrapped.run(&options, &["2", "60000"]);
        assert!(report.is_complete(), "{what}: {:?}", report.heap.lost);
        let truth = wrapped.told(&outcome.stdout);
        // Calls are counted, not estimated.
        assert_eq!(calls(&report), (truth.asked + truth.own, truth.freed), "{what}: {truth:?}");
        for (name, account) in accounts(&outcome.stdout) {
            let sites = report.heap.sites.iter().filter(|site| site.is_in(&name));
            let got: f64 = sites.map(|site| site.allocated.bytes.value).sum();
            let (bytes, blocks) = (account.bytes as f64, account.blocks as f64);
            if account.blocks > 0 {
                let mean = bytes / blocks;
                assert_near(&format!("{what}: {name}"), got / mean, blocks, mean / 4.0, 8192.0);
            }
        }
        let books = report.heap.sites.iter().filter(|site| site.is_in("wrapper_book"));
        let got: f64 = books.map(|site| site.allocated.blocks.value).sum();
        assert_near(&format!("{what}: books"), got, truth.own as f64, 24.0, 8192.0);
    }
}

fn check(wrapped: &Wrapped, lost: &str) -> check::Result {
    let command = wrapped.command(&["1", "2000", lost]);
    let words: Vec<&str> = command[1..].iter().map(String::as_str).collect();
    check::run(Path::new(&command[0]), &words, &[], &[])
}

#[test]
fn a_check_of_a_wrapped_program_finds_its_leaks_and_no_others() {
    for wrapped in all() {
        let what = &wrapped.what;
        let clean = check(&wrapped, "0");
        assert_eq!(clean.code, Some(0), "{what}: {}\n{}", clean.talk, clean.report);
        let leaks = check(&wrapped, "7");
        // Books that are reachable lead to every block.
        let lost = if what.contains("BOOKS") { (0, 0) } else { (7 * 33, 7) };
        assert_eq!(leaks.sum("direct"), lost, "{what}: {}", leaks.talk);
        let code = if lost.1 == 0 { 0 } else { 23 };
        assert_eq!(leaks.code, Some(code), "{what}: {}", leaks.talk);
    }
}

#[test]
fn a_wrapper_that_is_loaded_in_mid_session_counts_once() {
    let Some(program) = Source::new("late_wrapper.c").build() else { return };
    for shape in ["-DPLAIN", "-DHEADER"] {
        let Some(library) = library(&[shape, "-DLATE"]) else { return };
        let mut command = Command::new(&program);
        let mut child = command.arg(&library).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.as_mut().expect("a program of ours");
        let mut told = BufReader::new(child.stdout.take().expect("asked for")).lines();
        let mut next = || told.next().expect("it says more").expect("text");
        assert_eq!(next(), "ready");
        let pid = i32::try_from(child.id()).expect("a pid");
        let attach = Attached::command(pid, Hooks::Auto);
        let attach = EXACT.iter().fold(attach, |attach, option| attach.arg(*option));
        let attached = Attached::open(attach).unwrap_or_else(|why| panic!("{why}"));
        let mut input = child.stdin.take().expect("asked for");
        writeln!(input).expect("it reads");
        assert_eq!(next(), "made 1000 dropped 990", "{shape}");
        let report = attached.end();
        writeln!(input).expect("it reads");
        assert!(child.wait().expect("our child").success(), "{shape}");
        assert!(report.is_complete(), "{shape}: {:?}", report.heap.lost);
        let sites = report.heap.sites.iter().filter(|site| site.is_in("late_make"));
        let (made, live) = sites.fold((0, 0), |(made, live), site| {
            (made + whole(site.allocated.blocks.value), live + whole(site.live.blocks.value))
        });
        assert_eq!((made, live), (1000, 10), "{shape}: {report:#?}");
    }
}

/// There is no room to remember whose call is in the middle of which: then it is said.
#[test]
fn calls_of_more_threads_than_are_told_apart_are_said_to_count_twice() {
    let Some(program) = Source::new("many_callers.c").build() else { return };
    let Some(wrapper) = library(&["-DPLAIN"]) else { return };
    let preload = format!("LD_PRELOAD={}", wrapper.display());
    let blind = |words: &[&str]| {
        let command = Heapattach::new(["run", "--all", "--json", "--no-record", "--report"]);
        let file = fresh_file();
        let command = command.arg(&file).arg("--");
        words.iter().fold(command, |command, word| command.arg(*word)).run().expect(0);
        let text = std::fs::read_to_string(&file).expect("a report");
        let _ = std::fs::remove_file(&file);
        serde_json::from_str::<Report>(&text).expect("a report").blind
    };
    let program = program.to_str().expect("a path");
    let is_said = |blind: &[String]| blind.iter().any(|line| line.contains("count once for each"));
    let many = blind(&["env", &preload, program, "2300"]);
    assert!(is_said(&many), "{many:?}");
    assert!(!is_said(&blind(&["env", &preload, program, "100"])), "of few threads, too");
    assert!(!is_said(&blind(&["env", program, "2300"])), "without a wrapper, too");
    let checked = check::run(Path::new("/usr/bin/env"), &[&preload, program, "2300"], &[], &[]);
    assert_eq!(checked.code, Some(6), "{}", checked.talk);
    let doubts = checked.check()["doubts"].to_string();
    assert!(doubts.contains("count once for each"), "{doubts}");
}
