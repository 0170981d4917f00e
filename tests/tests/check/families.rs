//! `heapattach check --follow-forks`: every program of a family is checked at its own end, exactly,
//! and the family behaves as it would without us.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    thread,
    time::Duration,
};

use heapattach_tests::{
    check::{self, opens::Opens},
    command::{Heapattach, Outcome},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// Direct, indirect and possible: bytes and blocks of each.
type Lost = [u64; 6];

/// The fixture, in a folder of its own.
struct Suite(PathBuf);

impl Suite {
    fn build() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let program = Source::new("leaky_suite.c").build()?;
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-family-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        fs::copy(&program, folder.join("leaky_suite")).expect("a copy of our own file");
        Some(Self(folder))
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("a folder of ours");
        self.path(name)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// Checks a family, with these options, and reads the result.
    fn check(&self, options: &[&str], words: &[&str]) -> (Outcome, Value) {
        let report = self.path("report.json");
        let _ = fs::remove_file(&report);
        let mut command = Heapattach::new(["check", "--follow-forks", "--json", "--report"])
            .arg(&report)
            .folder(&self.0);
        for argument in options.iter().chain(&["--"]).chain(words) {
            command = command.arg(*argument);
        }
        let outcome = command.run();
        let report = serde_json::from_str(&self.read("report.json"))
            .unwrap_or_else(|error| panic!("no result ({error}): {}", outcome.stderr));
        (outcome, report)
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The first process and all others, program after program.
fn family(report: &Value) -> Vec<&Value> {
    let others = report["processes"].as_array().map(Vec::as_slice).unwrap_or_default();
    std::iter::once(report).chain(others).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// What was leaked, by process, of those that nothing is doubtful of.
fn found(report: &Value) -> BTreeMap<u64, Lost> {
    let is_sure = |one: &&Value| one["check"]["doubts"].as_array().is_some_and(Vec::is_empty);
    let checked = family(report).into_iter().filter(is_sure);
    let lost = |one: &Value| {
        let check = &one["check"];
        let sum = |kind, what| number(&check["sums"][kind][what]);
        let kinds = ["direct", "indirect", "possible"];
        let sums = kinds.map(|kind| [sum(kind, "bytes"), sum(kind, "blocks")]);
        let sums: Vec<u64> = sums.into_iter().flatten().collect();
        (number(&one["pid"]), sums.try_into().expect("three pairs"))
    };
    checked.map(lost).collect()
}

/// The same as the fixture says, and its names.
fn told(output: &str) -> BTreeMap<u64, (String, Lost)> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("truth "));
    let one = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<u64>().expect("a number of the fixture");
        let lost: Vec<u64> = words[2..].iter().map(|word| number(word)).collect();
        (number(words[0]), (words[1].to_owned(), lost.try_into().expect("three pairs")))
    };
    lines.map(one).collect()
}

/// Programs that are named because they were not checked.
fn unchecked(report: &Value) -> Vec<String> {
    let all = report["findings"]["unchecked"].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|one| Some(one["program"].as_str()?.to_owned())).collect()
}

#[test]
fn every_program_of_a_family_is_checked_to_the_byte() {
    let Some(suite) = Suite::build() else { return };
    for hooks in ["auto", "slots"] {
        let (outcome, report) = suite.check(&["--hooks", hooks], &["./leaky_suite", "suite"]);
        assert_eq!(outcome.code(), Some(5), "{}", outcome.stderr);
        let told = told(&outcome.stdout);
        assert_eq!(told.len(), 18, "the fixture tells of its processes: {}", outcome.stdout);
        let found = found(&report);
        for (pid, (name, lost)) in &told {
            assert_eq!(found.get(pid), Some(lost), "{name} ({pid}) by {hooks}");
        }
        // Only what execed something else, and what borrowed memory, has told nothing.
        assert_eq!(found.len(), told.len(), "{found:?}");
        assert_eq!(unchecked(&report), Vec::<String>::new());
        let direct: u64 = told.values().map(|(_, lost)| lost[0] + lost[2]).sum();
        let leaks = report["findings"]["leaks"].as_array().expect("leaks");
        let bytes = |leak: &Value| {
            let amounts = [&leak["own"]["bytes"], &leak["held"]["bytes"]];
            amounts.into_iter().map(number).sum::<u64>()
        };
        assert_eq!(leaks.iter().map(bytes).sum::<u64>(), direct);
    }
}

#[test]
fn the_status_is_the_commands_own_or_says_that_something_was_lost() {
    let Some(suite) = Suite::build() else { return };
    for (script, code) in [
        ("./leaky_suite lose 0; ./leaky_suite lose 0 4 | cat; exit 0", 0),
        ("./leaky_suite lose 0; ./leaky_suite lose 7 | cat; exit 0", 23),
        ("(./leaky_suite lose 7; exit 3)", 3),
        ("kill -TERM $$", 143),
        ("./leaky_suite lose 7 & wait", 23),
    ] {
        let (outcome, report) = suite.check(&[], &["sh", "-c", script]);
        assert_eq!(outcome.code(), Some(code), "{script}: {}", outcome.stderr);
        assert_eq!(unchecked(&report), Vec::<String>::new(), "{script}");
    }
    let words = ["check", "--follow-forks", "--", "./no-such-program"];
    let outcome = Heapattach::new(words).folder(&suite.0).run().expect(127);
    assert!(outcome.stderr.contains("cannot be executed"), "{}", outcome.stderr);
}

/// Twenty tests, three of which leak something.
const MAKEFILE: &str = "\
TESTS := $(shell seq 1 20)
test: $(TESTS:%=test-%)
test-%:
\t@./t$* lose $(if $(filter 4 11 17,$*),$*00,0)
";

fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        skip(&format!("no {program} here"), &format!("apt-get install {program}"));
    }
    is_there
}

#[test]
fn of_a_suite_that_make_runs_those_are_named_that_lose_something() {
    let Some(suite) = Suite::build().filter(|_| has("make")) else { return };
    let _ = suite.file("Makefile", MAKEFILE);
    for test in 1..=20 {
        symlink("leaky_suite", suite.0.join(format!("t{test}"))).expect("a folder of ours");
    }
    let junit = suite.path("leaks.xml");
    let words = ["make", "-s", "-j2", "test"];
    let (outcome, report) = suite.check(&["--junit", &junit], &words);
    assert_eq!(outcome.code(), Some(23), "{}", outcome.stderr);
    let lost: Vec<(String, u64)> = family(&report)
        .into_iter()
        .filter(|one| one["check"]["sums"]["direct"]["bytes"].as_u64() > Some(0))
        .map(|one| {
            let command = one["command"].as_str().unwrap_or_default();
            let name = command.split(' ').next().unwrap_or_default();
            (name.to_owned(), number(&one["check"]["sums"]["direct"]["bytes"]))
        })
        .collect();
    let mut sorted = lost;
    sorted.sort();
    let expected = [("./t11", 1100), ("./t17", 1700), ("./t4", 400)];
    assert_eq!(sorted, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    // One stack is one case, and says where it was found.
    let text = suite.read("leaks.xml");
    assert!(text.contains("failures=\"2\""), "the leak, and the limit: {text}");
    for name in ["t4 (", "t11 (", "t17 ("] {
        assert!(text.contains(name), "{name} in {text}");
    }

    // What is known passes; the same from one more program does not.
    let known = suite.path("known.json");
    let options = ["--baseline", &*known, "--update-baseline"];
    assert_eq!(suite.check(&options, &words).0.code(), Some(0));
    assert_eq!(suite.check(&options[..2], &words).0.code(), Some(0));
    let _ = suite.file("Makefile", &MAKEFILE.replace("4 11 17", "4 5 11 17"));
    assert_eq!(suite.check(&options[..2], &words).0.code(), Some(23));
}

#[test]
fn the_text_tells_of_each_that_loses_something_and_counts_the_others() {
    let Some(suite) = Suite::build() else { return };
    let script = "./leaky_suite lose 7; ./leaky_suite lose 0; ./leaky_suite lose 0; exit 0";
    let words = ["check", "--follow-forks", "--", "sh", "-c", script];
    let talk = Heapattach::new(words).folder(&suite.0).run().expect(23).stderr;
    assert!(talk.contains("Direct leak of 7 byte(s) in 1 object(s), in leaky_suite ("), "{talk}");
    assert_eq!(talk.matches("CHECKED ").count(), 1, "{talk}");
    assert!(talk.contains("\nCLEAN     3 processes: 2 x leaky_suite, sh\n"), "{talk}");
    assert!(talk.contains("SUMMARY: heapattach: 7 byte(s) leaked in 1 allocation(s).\n"), "{talk}");
}

#[test]
fn processes_that_leak_the_same_are_told_once_and_those_that_crash_by_their_signal() {
    let Some(suite) = Suite::build() else { return };
    let script = "for i in 1 2 3 4; do ./leaky_suite lose 200; done; ./leaky_suite lose 300; \
                  sh -c 'kill -SEGV $$'; kill -ABRT $$";
    let junit = suite.path("leaks.xml");
    let words = ["check", "--follow-forks", "--junit", &junit, "--github", "on", "--"];
    let command = Heapattach::new(words.iter().chain(&["sh", "-c", script])).folder(&suite.0);
    let talk = command.run().expect(128 + 6).stderr;
    for line in
        ["CHECKED   4 x leaky_suite, at their ends: 200 B each", "CLEAN     2 processes: 2 x sh"]
    {
        assert!(talk.lines().any(|told| told == line), "{line}\n{talk}");
    }
    assert_eq!(talk.matches("CHECKED ").count(), 2, "{talk}");
    let ended: Vec<&str> = talk.lines().filter(|line| line.starts_with("ENDED ")).collect();
    let [first, other] = ended[..] else { panic!("two: {talk}") };
    assert!(first.contains("): killed by SIGABRT"), "{talk}");
    assert!(other.contains("): killed by SIGSEGV"), "{talk}");
    assert!(talk.contains("\n::error title=Ended by a signal::"), "{talk}");
    assert!(talk.contains("\n::notice title=Ended by a signal::"), "{talk}");
    let cases = suite.read("leaks.xml");
    assert!(cases.contains("<error message=\"killed by SIGABRT"), "{cases}");
    assert!(cases.contains("<skipped message=\"killed by SIGSEGV"), "{cases}");
    assert!(
        cases.contains("in 5 processes") || cases.contains("leaky_suite (5 processes)"),
        "{cases}"
    );
}

#[test]
fn what_cannot_be_checked_does_not_pass_for_clean() {
    let Some(suite) = Suite::build() else { return };
    let source = Source::new("leaky_suite.c").flag("-static").flag("-s");
    let Some(bare) = source.build() else { return };
    fs::copy(&bare, suite.0.join("bare")).expect("a copy of our own file");
    let clean = ["sh", "-c", "./bare lose 9; exit 0"];
    let (outcome, report) = suite.check(&[], &clean);
    assert_eq!((outcome.code(), unchecked(&report)), (Some(6), vec!["bare".to_owned()]));
    // What is leaked elsewhere is the worse news.
    let lossy = ["sh", "-c", "./bare lose 9; ./leaky_suite lose 8; exit 0"];
    let (outcome, report) = suite.check(&[], &lossy);
    assert_eq!((outcome.code(), unchecked(&report)), (Some(23), vec!["bare".to_owned()]));
    // Unless that is what was asked for.
    let (outcome, report) = suite.check(&["--skip", "ba*"], &clean);
    assert_eq!((outcome.code(), unchecked(&report)), (Some(0), Vec::new()));
    let (outcome, report) = suite.check(&["--max-processes", "2"], &["./leaky_suite", "suite"]);
    assert_eq!(outcome.code(), Some(5));
    assert_eq!(unchecked(&report).len(), 1, "{report}");
}

#[test]
fn the_children_of_what_is_left_out_are_checked() {
    let Some(suite) = Suite::build() else { return };
    let words = ["sh", "-c", "./leaky_suite lose 9; exit 0"];
    let options = ["--skip", "*sh"];
    let (outcome, report) = suite.check(&options, &words);
    assert_eq!(outcome.code(), Some(23), "{}", outcome.stderr);
    assert_eq!(report["outcome"], "skipped");
    assert_eq!(found(&report).values().copied().collect::<Vec<_>>(), [[9, 1, 0, 0, 0, 0]]);
}

#[test]
fn a_program_with_a_check_of_its_own_makes_it() {
    let Some(suite) = Suite::build() else { return };
    let Some(own) = Source::new("leaky_suite.c").flag("-fsanitize=address").build() else { return };
    fs::copy(&own, suite.0.join("own")).expect("a copy of our own file");
    let script = "./own lose 9; echo $?; ./leaky_suite lose 0; exit 0";
    let (outcome, report) = suite.check(&[], &["sh", "-c", script]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "1\n", "it found its leak: {}", outcome.stderr);
    assert_eq!(unchecked(&report), Vec::<String>::new());
    assert!(family(&report).iter().any(|one| one["outcome"] == "aside"));
}

#[test]
fn children_that_are_killed_at_any_moment_hold_nobody_up() {
    let Some(suite) = Suite::build() else { return };
    let rounds = if is_soak() { 300 } else { 15 };
    let (outcome, report) = suite.check(&[], &["./leaky_suite", "storm", &rounds.to_string()]);
    assert_eq!(outcome.code(), Some(23), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "storm over\n");
    // Those that are not killed leak all that they leak; others may have been in the middle of a call.
    let whole = found(&report).values().filter(|lost| **lost == [33, 1, 0, 0, 0, 0]).count();
    assert_eq!(whole, rounds);
}

/// The calls of the engine in the check of a program that forks so often.
fn engine_calls(suite: &Suite, forks: u64) -> u64 {
    let script = format!(
        "import os\nfor _ in range({forks}):\n    os.fork() or os._exit(0)\n    os.wait()\n"
    );
    let words = ["check", "--follow-forks", "--max-leak=1GiB", "--", "python3", "-c", &script];
    let outcome = Heapattach::new(words).folder(&suite.0).fault("count").run();
    let counted = outcome.stderr.lines().find_map(|line| {
        line.strip_prefix("heapattach: faults: ")?.strip_suffix(" calls")?.parse().ok()
    });
    counted.unwrap_or_else(|| panic!("no count: {}", outcome.stderr))
}

#[test]
fn a_forked_child_takes_over_what_its_parents_check_has() {
    const FORKS: u64 = 8;
    let Some(suite) = Suite::build().filter(|_| has("python3")) else { return };
    let each = (engine_calls(&suite, FORKS) - engine_calls(&suite, 0)) / FORKS;
    println!("{each} calls a fork");
    // Attached to anew it would be more than two hundred.
    assert!((20..=150).contains(&each), "{each} calls of the engine a fork");
}

#[test]
fn a_process_of_a_thousand_short_threads_comes_to_its_end() {
    let Some(suite) = Suite::build() else { return };
    let program = suite.0.join("leaky_suite");
    for _ in 0..3 {
        let alone = check::run(&program, &["crowd", "1000"], &[], &[]);
        assert_eq!((alone.sum("direct"), alone.code), ((10_000, 1000), Some(23)));
        let (outcome, report) = suite.check(&[], &["./leaky_suite", "crowd", "1000"]);
        assert_eq!(outcome.code(), Some(23), "{}", outcome.stderr);
        let lost: Vec<Lost> = found(&report).into_values().collect();
        assert_eq!(lost, [[10_000, 1000, 0, 0, 0, 0]]);
    }
}

#[test]
fn git_and_pipelines_do_as_they_do() {
    let Some(suite) = Suite::build().filter(|_| has("git")) else { return };
    let git = "git init -q . && for i in 1 2 3; do echo $i > $i; git add $i; \
               git -c user.name=a -c user.email=a@b commit -q -m $i; done";
    let made = Command::new("sh").args(["-c", git]).current_dir(&suite.0).status();
    assert!(made.is_ok_and(|status| status.success()), "git works here");
    for words in [
        &["git", "log", "--oneline"][..],
        &["git", "gc", "-q"],
        &["git", "fsck"],
        &["sh", "-c", "ls / | sort -r | (cat; exit 3); echo $?; (exit 5)"],
    ] {
        let plain = Command::new(words[0]).args(&words[1..]).current_dir(&suite.0).output();
        let plain = plain.expect("it ran before");
        let (outcome, report) = suite.check(&[], words);
        assert_eq!(outcome.code(), plain.status.code(), "{words:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, String::from_utf8_lossy(&plain.stdout), "{words:?}");
        let lost: Vec<_> =
            found(&report).into_iter().filter(|(_, lost)| lost[..4] != [0; 4]).collect();
        // Others end with what they hold, as sort(1) does.
        assert!(lost.is_empty() || words[0] != "git", "{words:?}: {lost:?}");
        assert_eq!(unchecked(&report), Vec::<String>::new(), "{words:?}");
    }
}

#[test]
fn large_programs_of_a_family_are_looked_at_while_they_go_on() {
    let Some(suite) = Suite::build() else { return };
    if !has("python3") {
        return;
    }
    // Alone it would be cloned: more than is copied by itself.
    let script = "import time; held = [b'x' * 4096 for _ in range(10_000)]; time.sleep(3)";
    let options = ["--every", "300ms", "--max-pause", "1h"];
    let (outcome, report) = suite.check(&options, &["sh", "-c", "python3 -c \"$0\"; :", script]);
    let rounds = family(&report).into_iter().filter_map(|one| one["check"]["rounds"].as_array());
    let looks: Vec<&Value> = rounds.flatten().collect();
    let methods: Vec<&Value> = looks.iter().map(|look| &look["method"]).collect();
    assert!(looks.iter().all(|look| look["error"].is_null()), "{looks:?}");
    assert!(methods.iter().any(|method| *method == "copy"), "{methods:?}\n{}", outcome.stderr);
    assert!(!methods.iter().any(|method| *method == "fork"), "{methods:?}");
}

#[test]
fn what_is_for_one_process_is_refused_with_words() {
    for option in
        [["--at", "exit-start"], ["--at", "exec"], ["--at", "signal:USR2"], ["--snapshot", "fork"]]
    {
        let words = ["check", "--follow-forks"].into_iter().chain(option);
        let outcome = Heapattach::new(words.chain(["--", "true"])).run().expect(2);
        assert!(outcome.stderr.contains("--follow-forks"), "{}", outcome.stderr);
    }
    Heapattach::new(["check", "--follow-forks", "-p", "1"]).run().expect(2);
    Heapattach::new(["check", "--skip", "sh", "--", "true"]).run().expect(2);
}

/// Whether a process of this command line is left.
fn is_left(program: &Path) -> bool {
    let pids = fs::read_dir("/proc").expect("procfs").filter_map(Result::ok);
    let lines = pids.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let marker = program.display().to_string();
    lines.into_iter().any(|line| line.starts_with(marker.as_bytes()))
}

#[test]
fn a_family_runs_on_when_the_command_or_its_tracer_is_killed() {
    let Some(suite) = Suite::build() else { return };
    let (seed, turns) = (seed(), if is_soak() { 100 } else { 10 });
    let mut random = Random::new(seed);
    for turn in 0..turns {
        // Its own name, to see whether one of its processes is left behind.
        let program = suite.0.join(format!("turn-{turn}"));
        fs::copy(suite.0.join("leaky_suite"), &program).expect("a copy");
        let path = program.display().to_string();
        let words = ["check", "--follow-forks", "--", &path, "storm", "5"];
        let command = Heapattach::new(words).folder(&suite.0).start();
        thread::sleep(Duration::from_micros(random.between(1000, 600_000)));
        let children = format!("/proc/{0}/task/{0}/children", command.pid());
        let tracer = fs::read_to_string(children).unwrap_or_default();
        let tracer = tracer.split_whitespace().next().and_then(|pid| pid.parse().ok());
        let victim = tracer.filter(|_| turn % 2 == 0).unwrap_or_else(|| command.pid());
        let _ = kill(Pid::from_raw(victim), Signal::SIGKILL);
        let when = format!("the end after a kill (turn {turn}, seed {seed})");
        let mut began = false;
        wait_until(&when, PATIENCE, || {
            began |= is_left(&program);
            !is_left(&program)
        });
        // If the kill came before the program began, there was nothing to end.
        let (output, talk) = (command.output(), command.talk());
        let is_whole = output.ends_with("storm over\n") || !began;
        assert!(is_whole, "turn {turn}, seed {seed}: {output}\n{talk}");
    }
    println!("killed {turns} times, seed {seed}");
}

/// The debug information of a program that runs five times is read as often as that of one that runs once.
#[test]
fn a_file_is_read_once_for_all_processes_of_a_suite() {
    let Some(suite) = Suite::build() else { return };
    let folder = suite.0.as_path();
    let objcopy = |words: &[&str]| {
        let status = Command::new("objcopy").args(words).current_dir(folder).status();
        assert!(status.expect("objcopy comes with the compiler").success(), "{words:?}");
    };
    objcopy(&["--only-keep-debug", "leaky_suite", "suite.debug"]);
    objcopy(&["--strip-debug", "--add-gnu-debuglink=suite.debug", "leaky_suite"]);
    let opened = |times: usize| {
        let opens = Opens::of(&folder.join("suite.debug"));
        let line =
            format!("i=0; while [ $i -lt {times} ]; do ./leaky_suite lose 7; i=$((i + 1)); done");
        let told = Heapattach::new(["check", "--follow-forks", "--", "sh", "-c", &line]);
        let told = told.folder(folder).run().expect(23);
        assert!(told.stderr.contains("leaky_suite.c:"), "{}", told.stderr);
        opens.count()
    };
    let once = opened(1);
    assert!(once > 0, "it is not read at all");
    assert_eq!(opened(5), once);
}
