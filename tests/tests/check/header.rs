//! `heapattach.h`: what a program says of itself is heeded, to the byte, with all compilers; no thread
//! waits for a session that is gone, and the program is left as it was found.

use std::{path::PathBuf, process::Command};

use heapattach_tests::{
    check::{self, Result, Stepping},
    command::{Heapattach, Outcome},
    compile::{Source, folder, is_there},
    deadline::{PATIENCE, poll, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const FLAGS: [&str; 4] = ["-pedantic", "-Wall", "-Wextra", "-Werror"];
const ANY_PAUSE: &str = "--max-pause=60s";

fn source(compiler: &'static str, flags: &[&str]) -> Source {
    let header = folder().join("../cli/include");
    let file = if compiler.ends_with("++") { "telling.cpp" } else { "telling.c" };
    let source = Source::new(file).flag(&format!("-I{}", header.display()));
    let source = FLAGS.iter().chain(flags).fold(source, |source, flag| source.flag(flag));
    source.compiler(compiler)
}

fn program() -> Option<PathBuf> {
    source("cc", &["-std=c89"]).build()
}

/// A program that waits so many milliseconds for a check.
fn patient(milliseconds: u32) -> Option<PathBuf> {
    source("cc", &["-std=c89", &format!("-DHEAPATTACH_PATIENCE={milliseconds}")]).build()
}

fn run(program: &std::path::Path, letters: &str, options: &[&str]) -> Result {
    let options = [&[ANY_PAUSE], options].concat();
    check::run(program, &[letters], &[], &options)
}

/// The checks that the program asked for, and what each found.
fn named(report: &Value) -> Vec<(String, u64)> {
    let rounds = report["check"]["rounds"].as_array().cloned().unwrap_or_default();
    let named = rounds.iter().filter_map(|round| {
        Some((round["name"].as_str()?.to_owned(), round["lost"]["bytes"].as_u64()?))
    });
    named.collect()
}

/// Bytes that are leaked of what a function of the program asked for.
fn lost(result: &Result, function: &str) -> u64 {
    let findings = result.check()["findings"].as_array().cloned().unwrap_or_default();
    let has = |finding: &&Value| finding["frames"].to_string().contains(&format!("\"{function}"));
    let bytes = |finding: &Value| finding["own"]["bytes"].as_u64().expect("a number");
    findings.iter().filter(has).map(bytes).sum()
}

#[test]
fn what_is_said_is_heeded_to_the_byte_whoever_compiled_it() {
    let builds: [(&str, &[&str]); 6] = [
        ("gcc", &["-std=c89"]),
        ("gcc", &["-std=gnu17", "-O0", "-flto"]),
        ("clang", &["-std=c89"]),
        ("g++", &["-std=c++98"]),
        ("clang++", &["-std=c++98", "-O0"]),
        ("gcc", &["-std=c89", "-static"]),
    ];
    let mut checked = 0;
    for (compiler, flags) in builds {
        if !is_there(compiler) {
            skip(&format!("no {compiler} here"), "apt-get install gcc g++ clang");
            continue;
        }
        let Some(program) = source(compiler, flags).build() else { continue };
        let how = format!("{compiler} {flags:?}");
        let result = run(&program, "licm", &[]);
        assert_eq!((lost(&result, "lose"), lost(&result, "ignore")), (100, 0), "{how}");
        if !flags.contains(&"-static") {
            // A static C library has blocks of its own that it leads to from memory it protects.
            assert_eq!(result.sum("direct"), (100, 1), "{how}: {}", result.report);
            assert_eq!(result.sum("indirect"), (0, 0), "{how}");
        }
        let names: Vec<_> = named(&result.report).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["check 1"], "{how}");
        assert_eq!(result.check()["marks"][0]["why"], "half way", "{how}");
        checked += 1;
    }
    assert!(checked > 0, "no compiler at all");
}

#[test]
fn a_program_that_says_nothing_of_it_loses_it() {
    let Some(program) = source("cc", &["-std=c89", "-DHEAPATTACH_DISABLE"]).build() else { return };
    let result = run(&program, "licm", &[]);
    assert_eq!(result.sum("direct"), (300, 2), "{}", result.report);
    assert_eq!(result.sum("indirect"), (40, 1));
    assert!(named(&result.report).is_empty());
}

#[test]
fn pointers_count_where_the_program_says_so() {
    let Some(program) = program() else { return };
    let kinds = "registers,stacks,tls,globals,shared,heap,kernel,loader";
    let with = format!("--roots={kinds},announced");
    let without = format!("--roots={kinds}");
    for (letters, roots, direct) in [
        ("r", &with, (0, 0)),
        ("r", &without, (300, 1)),
        ("u", &with, (300, 1)),
        ("i", &with, (0, 0)),
        ("i", &without, (200, 1)),
    ] {
        let result = run(&program, letters, &[roots]);
        assert_eq!(result.sum("direct"), direct, "{letters} {roots}: {}", result.report);
    }
}

#[test]
fn what_is_allocated_in_a_part_that_is_ignored_is_not_leaked_there_and_only_there() {
    for flags in [&["-std=c89"][..], &["-std=c89", "-static"]] {
        let Some(program) = source("cc", flags).build() else { return };
        for hooks in ["--hooks=auto", "--hooks=slots"] {
            // In a static program there are no slots.
            if flags.contains(&"-static") && hooks.ends_with("slots") {
                continue;
            }
            let result = run(&program, "lbl", &[hooks]);
            assert_eq!(lost(&result, "lose"), 200, "{hooks}: {}", result.report);
            assert_eq!(lost(&result, "part"), 0, "{hooks}: {}", result.report);
        }
    }
    // A session that does not check hears nothing of it.
    let Some(program) = program() else { return };
    let report =
        Heapattach::new(["run", "--json", "--no-record", "--"]).arg(&program).arg("bb").run();
    let report: Value = serde_json::from_str(&report.stderr).expect("JSON");
    let functions = report["functions"].to_string();
    assert!(!functions.contains("44497"), "{functions}");
}

#[test]
fn every_check_that_is_asked_for_is_made_then_and_told_by_its_name() {
    let Some(program) = program() else { return };
    let result = run(&program, "clcllci", &[]);
    let expected = [("check 1", 0), ("check 2", 100), ("check 3", 300)];
    let expected = expected.map(|(name, bytes)| (name.to_owned(), bytes));
    assert_eq!(named(&result.report), expected);
    assert!(result.talk.contains("check 2 `check 2` after"), "{}", result.talk);
    assert_eq!(result.sum("direct"), (300, 3));
}

#[test]
fn a_block_at_the_place_of_an_ignored_one_is_another() {
    let Some(program) = program() else { return };
    let result = run(&program, "a", &[]);
    assert_eq!(result.sum("direct"), (400, 1), "{}", result.report);
}

#[test]
fn what_found_no_room_is_told() {
    let Some(program) = program() else { return };
    let result = run(&program, "lo", &[]);
    assert_eq!(result.sum("direct"), (100, 1), "{}", result.report);
    let notes = result.check()["notes"].to_string();
    assert!(
        notes.contains("76 times HEAPATTACH_IGNORE or HEAPATTACH_ROOT found no room"),
        "{notes}"
    );
}

#[test]
fn a_library_that_comes_later_has_a_mailbox_of_its_own() {
    let Some(first) = source("cc", &["-DFIRST", "-std=gnu99"]).build() else { return };
    let Some(second) = source("cc", &["-DSECOND", "-std=gnu99", "-shared", "-fPIC"]).build() else {
        return;
    };
    let second = second.to_str().expect("a plain path");
    let result = check::run(&first, &["lsc"], &[("SECOND", second)], &[ANY_PAUSE]);
    assert_eq!(result.sum("direct"), (100, 1), "{}", result.report);
    let names: Vec<_> = named(&result.report).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["second", "check 1"], "{}", result.talk);
}

#[test]
fn no_thread_waits_for_a_session_that_is_not_there() {
    // It waits for a day, if it waits.
    let Some(program) = patient(86_400_000) else { return };
    // A child of the process that is watched.
    let result = run(&program, "lfl", &[]);
    assert_eq!(result.report["exit"]["code"], 0, "{}", result.report);
    // Without any session.
    let mut child = Command::new(&program).arg("licrumof").spawn().expect("a program of ours");
    let status = poll(PATIENCE, || child.try_wait().expect("a child of ours"));
    if status.is_none() {
        let _ = child.kill();
    }
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    // A tracer that is killed: the thread goes on when its time is over, a moment here.
    let Some(program) = patient(200) else { return };
    let mut program = Stepping::start(&program, &["wlc"]);
    let pid = program.pid().to_string();
    let command = Heapattach::new(["check", "-p", &pid, ANY_PAUSE]).start();
    wait_until("the attach", PATIENCE, || command.talk().contains("attached to"));
    let tracer = child_of(command.pid());
    for pid in [command.pid(), tracer] {
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("ours");
    }
    program.step();
    let outcome = Heapattach::detach(program.pid()).run();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(program.end(), Some(0));
}

fn child_of(pid: i32) -> i32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).expect("it lives");
    let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    first.expect("a tracing process")
}

#[test]
fn a_process_with_a_mailbox_is_left_as_it_was_found() {
    let Some(program) = program() else { return };
    let print = |pid: i32| Fingerprint::of(pid).expect("it lives");
    for is_killed in [false, true] {
        let mut program = Stepping::start(&program, &["iwlcw"]);
        let before = print(program.pid());
        let pid = program.pid().to_string();
        let args = ["check", "-p", &pid, "--duration", "300ms", "--json", ANY_PAUSE];
        if is_killed {
            let outcome = Heapattach::new(args).fault("kill:60").run();
            assert_ne!(outcome.code(), Some(0), "it was not killed: {}", outcome.stderr);
            Heapattach::detach(program.pid()).run();
        } else {
            let Outcome { stderr, .. } = Heapattach::new(args).run().expect(0);
            assert!(stderr.contains("attached to"), "{stderr}");
        }
        let trace = diff_within(&before, &print(program.pid()), Scope::Exact);
        assert!(trace.is_empty(), "killed: {is_killed}: {trace:?}");
        // It stands in a read of its input, and goes on.
        program.tell_and_hear("ready\n");
    }
}

#[test]
fn marks_are_in_the_recording_of_a_session() {
    let Some(program) = program() else { return };
    let mut program = Stepping::start(&program, &["wmlw"]);
    let file = std::env::temp_dir().join(format!("heapattach-marks-{}", std::process::id()));
    let pid = program.pid().to_string();
    let command = Heapattach::new(["-p", &pid, "--all", "-o"]).arg(&file).start();
    wait_until("the attach", PATIENCE, || command.talk().contains("attached to"));
    program.tell_and_hear("ready\n");
    wait_until("the mark", PATIENCE, || command.talk().contains("the program says half way"));
    command.signal(Signal::SIGINT);
    let outcome = command.wait();
    let _ = std::fs::remove_file(&file);
    assert_eq!(outcome.code(), Some(130), "{}", outcome.stderr);
}

#[test]
fn it_costs_a_load_and_a_branch_while_nobody_watches() {
    let Some(program) = program() else { return };
    let listing = Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&program).output();
    let Ok(listing) = listing else { return skip("no objdump here", "apt-get install binutils") };
    let text = String::from_utf8_lossy(&listing.stdout);
    let body = text.split("<asks>:\n").nth(1).expect("it has the function");
    let code = body.lines().take_while(|line| !line.trim().is_empty());
    let code: Vec<&str> = code.filter_map(|line| line.split('\t').nth(1)).collect();
    let end = code.iter().position(|line| line.starts_with("ret")).expect("it returns");
    println!("{code:?}");
    // The load, the test, the branch, and the return; a mark for indirect branches may come before.
    assert!(end <= 4, "{code:?}");
}

#[test]
fn the_header_that_is_printed_is_the_one_that_is_compiled() {
    let outcome = Heapattach::new(["check", "--print-header"]).run().expect(0);
    let file = folder().join("../cli/include/heapattach.h");
    let text = std::fs::read_to_string(file).expect("a file of ours");
    assert_eq!(outcome.stdout.trim_end(), text.trim_end());
}
