//! Programs that speak LeakSanitizer's language are understood: the same program is built with it and
//! without, and both find the same.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use heapattach_tests::{
    check::{self, Result, Stepping, Sum},
    command::{Heapattach, binary},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    hazard::cycles,
    sample::points,
    seed::{Random, seed},
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const ANY_PAUSE: &str = "--max-pause=60s";

fn source() -> Source {
    Source::new("lsan_words.c").flag("-g").flag("-fno-builtin")
}

fn program() -> Option<PathBuf> {
    source().build()
}

/// A program that defines a function for LeakSanitizer.
fn defining(what: &str) -> Option<PathBuf> {
    source().flag(&format!("-D{what}")).build()
}

fn run(program: &std::path::Path, letters: &str, options: &[&str]) -> Result {
    check::run(program, &[letters], &[], &[&[ANY_PAUSE], options].concat())
}

/// What LeakSanitizer finds: direct and indirect.
fn by_leak_sanitizer(program: &std::path::Path, letters: &str) -> Option<[Sum; 2]> {
    let output = Command::new(program).arg(letters).output().expect("a program of ours");
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("has encountered a fatal error") {
        skip("LeakSanitizer cannot trace here", "run it where ptrace is permitted");
        return None;
    }
    let sum = |kind: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(kind));
        let numbers = lines.map(|line| {
            let mut words = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            (words.next().unwrap_or(0), words.next().unwrap_or(0))
        });
        numbers.fold((0, 0), |(bytes, blocks), (more, count)| (bytes + more, blocks + count))
    };
    Some([sum("Direct leak of"), sum("Indirect leak of")])
}

#[test]
fn the_same_program_leaks_the_same_with_leak_sanitizer_and_here() {
    let Some(own) = program() else { return };
    let Some(theirs) = source().flag("-fsanitize=leak").build() else { return };
    for letters in ["l", "d", "n", "t", "i", "a", "r", "g", "p", "ldntiarg", "lllddin"] {
        let Some(expected) = by_leak_sanitizer(&theirs, letters) else { return };
        let result = run(&own, letters, &[]);
        let found = ["direct", "indirect"].map(|kind| result.sum(kind));
        assert_eq!(found, expected, "{letters}: {}", result.report);
        let code = if found[0].0 > 0 { 23 } else { 0 };
        assert_eq!(result.code, Some(code), "{letters}: {}", result.talk);
    }
    // A mapping that nothing leads to is leaked here, and LeakSanitizer does not judge mappings.
    let Some([direct, _]) = by_leak_sanitizer(&theirs, "u") else { return };
    let result = run(&own, "u", &[]);
    assert_eq!((direct, result.sum("indirect")), ((500, 1), (500, 1)), "{}", result.report);
    assert_eq!(result.sum("direct"), (4096, 1));
}

#[test]
fn hooks_by_slots_alone_hear_the_same() {
    let Some(program) = program() else { return };
    let result = run(&program, "ldni", &["--hooks=slots"]);
    assert_eq!(result.sum("direct"), (113, 2), "{}", result.report);
}

#[test]
fn the_functions_are_there_only_for_a_program_that_was_started_here() {
    let Some(program) = program() else { return };
    let there = |outcome: String| outcome.lines().any(|line| line == "there 7");
    let alone = Command::new(&program).arg("x").output().expect("a program of ours");
    assert_eq!(String::from_utf8_lossy(&alone.stdout), "there 0\n");
    assert!(there(run(&program, "x", &[]).output));
    let watched = Heapattach::new(["run", "--no-record", "--"]).arg(&program).arg("x").run();
    assert!(there(watched.stdout), "{}", watched.stderr);
    // Bound by the linker: there is no word that could be filled.
    let Some(fixed) = source().flag("-no-pie").flag("-fno-pie").build() else { return };
    assert!(!there(run(&fixed, "x", &[]).output));
}

#[test]
fn a_check_that_the_program_requests_answers_whether_it_found_a_leak() {
    let Some(program) = program() else { return };
    let result = run(&program, "clcdc", &[]);
    assert_eq!(result.output, "check 0\ncheck 1\ncheck 1\n", "{}", result.talk);
    let rounds = result.check()["rounds"].as_array().expect("a list");
    let named = rounds.iter().filter(|round| round["name"] == "__lsan_do_leak_check");
    let lost: Vec<_> = named.map(|round| round["lost"]["bytes"].as_u64()).collect();
    assert_eq!(lost, [Some(0), Some(100), Some(100)], "{}", result.report);
}

#[test]
fn options_of_the_environment_count_and_the_command_line_comes_first() {
    let Some(program) = program() else { return };
    let run = |letters: &str, text: &str, options: &[&str]| {
        check::run(&program, &[letters], &[("LSAN_OPTIONS", text)], options)
    };
    assert_eq!(run("l", "exitcode=7", &[]).code, Some(7));
    assert_eq!(run("l", "exitcode=7", &["--error-exitcode=8"]).code, Some(8));
    assert_eq!(run("g", "use_globals=0", &[]).sum("direct"), (600, 1));
    assert_eq!(run("g", "use_globals=0", &["--roots=globals"]).sum("direct"), (0, 0));
    assert_eq!(run("p", "use_unaligned=1", &[]).sum("direct"), (0, 0));
    assert_eq!(run("r", "use_root_regions=0", &["--roots=globals,tls,stacks"]).code, Some(23));
    let file = std::env::temp_dir().join(format!("heapattach-lsan-{}.supp", std::process::id()));
    std::fs::write(&file, "leak:^lose$\n").expect("a temporary folder");
    let result = run("l", &format!("suppressions={}", file.display()), &[]);
    let _ = std::fs::remove_file(&file);
    assert_eq!(result.code, Some(0), "{}", result.talk);
    let outcome = Heapattach::new(["check", "--"])
        .env("LSAN_OPTIONS", "exitcode=7:report_objects=1:detect_leaks=0")
        .arg(&program)
        .run();
    let told =
        "read LSAN_OPTIONS: --error-exitcode=7; not taken: report_objects=1 detect_leaks=0\n";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
}

#[test]
fn what_the_program_defines_is_read_and_can_be_left_aside() {
    let Some(program) = defining("OPTIONS=\"exitcode=9:use_globals=0:max_leaks=3\"") else {
        return;
    };
    let result = run(&program, "lg", &[]);
    assert_eq!((result.code, result.sum("direct")), (Some(9), (700, 2)), "{}", result.talk);
    let notes = result.check()["notes"].to_string();
    assert!(notes.contains("taken exitcode=9 use_globals=0"), "{notes}");
    assert!(notes.contains("not taken max_leaks=3"), "{notes}");
    let result = run(&program, "lg", &["--no-embedded-suppressions"]);
    assert_eq!((result.code, result.sum("direct")), (Some(23), (100, 1)));
    let result = run(&program, "lg", &["--error-exitcode=5", "--roots=globals,stacks,tls"]);
    assert_eq!((result.code, result.sum("direct")), (Some(5), (100, 1)));
}

#[test]
fn a_program_that_says_so_is_not_checked() {
    let off = [
        ("OFF=1", "__lsan_is_turned_off"),
        ("OPTIONS=\"detect_leaks=0\"", "__lsan_default_options"),
    ];
    for (what, function) in off {
        let Some(program) = defining(what) else { return };
        let outcome = Heapattach::new(["check", "--"]).arg(&program).arg("l").run().expect(0);
        let told = format!("not checked: it says so itself: {function}");
        assert!(outcome.stderr.contains(&told), "{}", outcome.stderr);
    }
    // What it answers is a variable's value when the check is made.
    let Some(program) = defining("OFF=0") else { return };
    assert_eq!(run(&program, "l", &[]).code, Some(23));
}

#[test]
fn forked_children_are_heard_where_they_are_checked_and_wait_for_no_check_where_they_are_not() {
    let Some(program) = program() else { return };
    let result = run(&program, "lf", &[]);
    assert_eq!(result.report["exit"]["code"], 0, "{}", result.report);
    let result = run(&program, "f", &["--follow-forks"]);
    let children = result.report["processes"].as_array().expect("a list");
    let child = children.iter().find(|child| child["pid"] != result.report["pid"]);
    let sums = &child.expect("the child")["check"]["sums"];
    assert_eq!(sums["direct"]["bytes"], 100, "{}", result.report);
    assert_eq!(sums["indirect"]["bytes"], 0, "{}", result.report);
}

#[test]
fn at_whatever_call_its_tracer_is_killed_the_program_runs_to_its_end() {
    let Some(program) = program() else { return };
    let start = || Heapattach::new(["check", ANY_PAUSE, "--"]).arg(&program).arg("xdnifre");
    let (calls, seed) = (start().fault("trace").run().calls().len() as u64, seed());
    assert!(calls > 0, "no calls");
    let (mut ends, mut tried) = (0, 0);
    for n in points(calls, 30, &mut Random::new(seed)) {
        // All is read, until the program has ended, too.
        let mut command = Command::new(binary());
        command.args(["check", ANY_PAUSE, "--"]).arg(&program).arg("xdnifre");
        let output = command.env("HEAPATTACH_FAULT", format!("kill:{n}")).output();
        let said = String::from_utf8_lossy(&output.expect("ours").stdout).into_owned();
        // Before its first instruction it is killed with its tracer.
        assert!(said.is_empty() || said.ends_with("end\n"), "call {n}, seed {seed}: {said}");
        ends += u32::from(!said.is_empty());
        tried += 1;
    }
    println!("tracer killed at {tried} of {calls} calls, the program ended {ends} times");
    assert!(ends > 0, "it never ran, seed {seed}");
}

/// A program that calls through the words all the time, while its heapattach comes and goes in every way.
#[test]
fn a_word_once_filled_can_be_called_for_ever() {
    let Some(program) = program() else { return };
    let (seed, times) = (seed(), cycles());
    let mut random = Random::new(seed);
    for turn in 0..times {
        let what = format!("turn {turn}, seed {seed}");
        // Killed with its tracer, without it, or over by itself.
        let time = if turn % 3 == 2 { "--duration=20ms" } else { "--duration=1h" };
        let mut command = Command::new(binary());
        command.args(["check", ANY_PAUSE, time, "--"]).arg(&program).arg("o").stderr(Stdio::null());
        let mut stepping = Stepping::of(&mut command);
        let tracer = child_of(stepping.pid());
        let target = child_of(tracer);
        thread::sleep(Duration::from_micros(random.between(0, 20_000)));
        let kills: &[i32] = match turn % 3 {
            0 => &[stepping.pid(), tracer],
            1 => &[tracer],
            _ => &[],
        };
        kills.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).expect("ours"));
        for _ in 0..2 {
            // What was killed ends when it comes to it.
            wait_until("the clean-up", PATIENCE, || {
                Heapattach::detach(target).run().code() == Some(0)
            });
            let status = Heapattach::new(["status"]).run().expect(0).stdout;
            let own =
                status.lines().find(|line| line.trim_start().starts_with(&target.to_string()));
            let told = "with what stands in for LeakSanitizer";
            assert!(own.is_some_and(|line| line.contains(told)), "{what}: {status}");
            let pid = target.to_string();
            let again = Heapattach::new(["check", "-p", &pid, ANY_PAUSE, "--duration=30ms"]).run();
            assert!(again.stderr.contains("attached to"), "{what}: {}", again.stderr);
            assert!(is_there(target), "{what}: it died");
        }
        stepping.step();
        wait_until("its end", PATIENCE, || !is_there(target));
    }
}

pub(super) fn is_there(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

pub(super) fn child_of(pid: i32) -> i32 {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).expect("it lives");
    let first = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    first.expect("a child")
}
