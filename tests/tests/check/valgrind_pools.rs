//! Blocks and pools that a program announces to valgrind are heard: the same program is run by valgrind, and both
//! find the same.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
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

use crate::lsan_words::{child_of, is_there};

const ANY_PAUSE: &str = "--max-pause=60s";

fn program(optimized: &str) -> Option<PathBuf> {
    Source::new("valgrind_pools.c").flag("-g").flag("-fno-builtin").flag(optimized).build()
}

fn run(program: &Path, letters: &str, options: &[&str]) -> Result {
    check::run(program, &[letters], &[], &[&[ANY_PAUSE], options].concat())
}

/// What valgrind finds: direct and indirect.
fn by_valgrind(program: &Path, letters: &str) -> Option<[Sum; 2]> {
    let Ok(output) =
        Command::new("valgrind").arg("--leak-check=full").arg(program).arg(letters).output()
    else {
        skip("no valgrind here", "apt-get install valgrind");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stderr).replace(',', "");
    let sum = |kind: &str| {
        let line = text.lines().find_map(|line| line.split_once(kind));
        let mut words = line?.1.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        Some((words.next()?, words.next()?))
    };
    // Where nothing was allocated at the end it has no sums.
    let sums = ["definitely lost:", "indirectly lost:"].map(|kind| sum(kind).unwrap_or((0, 0)));
    assert!(text.contains("ERROR SUMMARY"), "{letters}: {text}");
    Some(sums)
}

#[test]
fn the_same_program_leaks_the_same_with_valgrind_and_here() {
    let Some(program) = program("-O2") else { return };
    for letters in ["a", "d", "c", "i", "h", "T", "M", "afdcmnrkistTMl"] {
        let Some(expected) = by_valgrind(&program, letters) else { return };
        let result = run(&program, letters, &[]);
        let found = ["direct", "indirect"].map(|kind| result.sum(kind));
        assert_eq!(found, expected, "{letters}: {}", result.report);
        let doubts = &result.check()["doubts"];
        assert!(doubts.as_array().is_none_or(Vec::is_empty), "{letters}: {doubts}");
    }
}

#[test]
fn what_is_announced_counts_as_blocks_with_their_own_stacks() {
    for optimized in ["-O0", "-O1", "-O2"] {
        let Some(program) = program(optimized) else { return };
        let result = run(&program, "afdcmnrkisl", &[]);
        let direct = 100 + 200 + 40 + 72 + 64 + 500;
        let sums = ["direct", "indirect"].map(|kind| result.sum(kind));
        assert_eq!(sums, [(direct, 6), (32, 1)], "{optimized}: {}", result.report);
        let findings = result.check()["findings"].as_array().expect("a list");
        let of_pool = findings.iter().find(|one| one["own"]["bytes"] == 100).expect("the first");
        let frames = of_pool["frames"].as_array().expect("a list").iter();
        let names: Vec<_> = frames.filter_map(|frame| frame["function"].as_str()).collect();
        assert_eq!(names[..3], ["pool_has", "lose_of_pool", "main"], "{optimized}: {names:?}");
        let notes = result.check()["notes"].to_string();
        assert!(notes.contains("those of pools and blocks are heard"), "{notes}");
    }
}

#[test]
fn a_check_that_is_requested_finds_what_valgrind_finds_there() {
    let Some(program) = program("-O2") else { return };
    // Before, between and behind what is leaked; the last check is that of the end.
    let letters = "qaqlfqidmqke";
    let Ok(by_valgrind) = Command::new("valgrind").arg(&program).arg(letters).output() else {
        return skip("no valgrind here", "apt-get install valgrind");
    };
    let by_valgrind = String::from_utf8_lossy(&by_valgrind.stdout).into_owned();
    let result = run(&program, letters, &[]);
    println!("{by_valgrind}");
    let told = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with("found ")).map(str::to_owned).collect()
    };
    assert_eq!(told(&by_valgrind).len(), 4, "{by_valgrind}");
    assert!(by_valgrind.contains("found 600 in 2,"), "{by_valgrind}");
    assert_eq!(told(&result.output), told(&by_valgrind));
    let rounds = result.check()["rounds"].as_array().map_or(0, Vec::len);
    assert!(rounds >= 4, "{}", result.report);
    let notes = result.check()["notes"].to_string();
    assert!(notes.contains("those of checks are heard"), "{notes}");
}

#[test]
fn without_a_change_of_code_nothing_is_heard_and_that_is_said() {
    let Some(program) = program("-O2") else { return };
    let result = run(&program, "a", &["--hooks=slots"]);
    assert_eq!(result.sum("direct"), (0, 0), "{}", result.report);
    let notes = result.check()["notes"].to_string();
    assert!(notes.contains("are not heard, as no code is to be changed"), "{notes}");
    // It is not told that valgrind runs it.
    assert_eq!(run(&program, "v", &[]).code, Some(0));
}

#[test]
fn at_whatever_call_its_tracer_is_killed_a_program_that_makes_requests_runs_to_its_end() {
    let Some(program) = program("-O2") else { return };
    let letters = "amrkhqe";
    let start = || Heapattach::new(["check", ANY_PAUSE, "--"]).arg(&program).arg(letters);
    let calls = start().fault("trace").run().calls();
    let seed = seed();
    assert!(!calls.is_empty(), "no calls");
    let (mut ends, mut tried) = (0, 0);
    for n in points(calls.len() as u64, 40, &mut Random::new(seed)) {
        // All is read, until the program has ended, too.
        let mut command = Command::new(binary());
        command.args(["check", ANY_PAUSE, "--"]).arg(&program).arg(letters);
        let output = command.env("HEAPATTACH_FAULT", format!("kill:{n}")).output();
        let said = String::from_utf8_lossy(&output.expect("ours").stdout).into_owned();
        // Before its first instruction it is killed with its tracer.
        assert!(said.is_empty() || said.ends_with("end\n"), "call {n}, seed {seed}: {said}");
        ends += u32::from(!said.is_empty());
        tried += 1;
    }
    println!("tracer killed at {tried} of {} calls, the program ended {ends} times", calls.len());
    assert!(ends > 0, "it never ran, seed {seed}");
}

/// Whether the code of a process's program is that of its file.
fn has_own_code(pid: i32, program: &Path) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let path = program.to_str().expect("a plain path");
    let line = maps.lines().find(|line| line.contains(" r-xp ") && line.ends_with(path));
    let mut words = line.expect("its code").split_whitespace();
    let (start, end) = words.next().and_then(|range| range.split_once('-')).expect("a range");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let (start, end) = (number(start), number(end));
    let offset = words.nth(1).map(number).expect("an offset");
    let length = usize::try_from(end - start).expect("small");
    let (mut there, mut own) = (vec![0; length], vec![0; length]);
    let memory = File::open(format!("/proc/{pid}/mem")).expect("it is ours");
    memory.read_exact_at(&mut there, start).expect("it is mapped");
    let file = File::open(program).expect("it is there");
    // The last page may reach beyond its end.
    let read = file.read_at(&mut own, offset).expect("it can be read");
    there[..read] == own[..read]
}

/// A program that makes requests all the time, while its heapattach comes and goes in every way.
#[test]
fn requests_are_as_they_were_after_a_kill_and_a_detach() {
    let Some(program) = program("-O2") else { return };
    let (seed, times) = (seed(), cycles().div_ceil(3));
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
        if turn % 3 != 2 {
            assert!(!has_own_code(target, &program), "{what}: nothing is heard");
        }
        thread::sleep(Duration::from_micros(random.between(0, 20_000)));
        let kills: &[i32] = match turn % 3 {
            0 => &[stepping.pid(), tracer],
            1 => &[tracer],
            _ => &[],
        };
        kills.iter().for_each(|pid| kill(Pid::from_raw(*pid), Signal::SIGKILL).expect("ours"));
        wait_until("the clean-up", PATIENCE, || Heapattach::detach(target).run().code() == Some(0));
        assert!(is_there(target), "{what}: it died");
        assert!(has_own_code(target, &program), "{what}: the code is another");
        stepping.step();
        wait_until("its end", PATIENCE, || !is_there(target));
    }
}
