//! Where results go, and what they are: files that readers take for what they are called, JSON that
//! nothing else is mixed with, and how a program ended.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use heapattach_tests::{
    command::{Heapattach, binary},
    compile::{Source, is_there},
    oracle::parse,
    skip::skip,
};
use serde_json::Value;

const FAILED: i32 = 1;
const RUN_FAILED: i32 = 125;
/// Calls of malloc by `from_start.c`.
const CALLS: u64 = 1000 + 50 + 200;

/// A folder of one test, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-outputs-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temporary folder is ours to write");
        Self(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("more than JSON ({error}): {text}"))
}

#[test]
fn stacks_are_those_of_what_the_program_became() {
    let Some(program) = Source::new("from_start.c").build() else { return };
    let folder = Folder::new();
    let file = folder.path("stacks");
    let run = Heapattach::new(["run", "--all", "--no-record", "--stacks", &file, "--"]);
    let run = run.arg("env").arg("X=1").arg(&program).arg("one").arg("two");
    run.run().expect(2);
    let stacks = parse(&fs::read_to_string(&file).expect("a file")).expect("stacks");
    let calls: u64 = stacks.iter().map(|stack| stack.allocations).sum();
    assert!(calls >= CALLS, "{calls} allocations: these are the stacks of env");
}

#[test]
fn json_of_a_program_that_is_run_is_alone_on_standard_error() {
    let words = ["run", "--json", "--", "sh", "-c", "echo mine; exit 3"];
    let outcome = Heapattach::new(words).run().expect(3);
    assert_eq!(outcome.stdout, "mine\n");
    let report = json(&outcome.stderr);
    assert_eq!((&report["status"], &report["exit"]["code"]), (&3.into(), &3.into()));
    let outcome = Heapattach::new(["run", "--json", "--", "/no/such/program"]).run().expect(127);
    let error = json(&outcome.stderr)["error"].as_str().map(str::to_owned);
    assert!(error.is_some_and(|error| error.contains("cannot be executed")), "{}", outcome.stderr);
}

#[test]
fn json_of_a_check_is_alone_on_standard_error_and_tells_of_the_heap() {
    let Some(program) = Source::new("several_leaks.c").build() else { return };
    let check = Heapattach::new(["check", "--json", "--github", "on", "--"]);
    let outcome = check.arg(&program).arg("kfw").run().expect(23);
    let report = json(&outcome.stderr);
    assert!(outcome.stdout.starts_with("::error "), "annotations: {}", outcome.stdout);
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    assert!(number(&report["heap"]["allocated"]["bytes"]["value"]) >= 137.0, "{report:#}");
    assert_eq!(number(&report["heap"]["every"]), 1.0);
    assert!(number(&report["counted_ms"]) >= 500.0, "it sleeps a second: {report:#}");
    let functions = report["functions"].as_array().expect("a list");
    let malloc = functions.iter().find(|row| row["function"] == "malloc").expect("it is hooked");
    assert!(number(&malloc["calls"]) >= 3.0, "{malloc}");
}

#[test]
fn json_can_go_to_a_file_beside_the_text() {
    let folder = Folder::new();
    let file = folder.path("report.json");
    let json_to = format!("--json={file}");
    for words in [["run", "--no-record"], ["check", "--github=off"]] {
        let command = Heapattach::new(words).arg(&json_to).arg("--").arg("true");
        let outcome = command.run().expect(0);
        let report = json(&fs::read_to_string(&file).expect("a file"));
        assert_eq!(report["status"], 0);
        assert!(outcome.stderr.contains("attached to"), "{words:?}: {}", outcome.stderr);
        fs::remove_file(&file).expect("it is there");
    }
}

#[test]
fn a_file_of_heaptrack_is_what_its_name_says() {
    let folder = Folder::new();
    let recording = folder.path("a.heapattach");
    Heapattach::new(["run", "-o", &recording, "--", "true"]).run().expect(0);
    let export = |name: &str, status| {
        let file = folder.path(name);
        let words = ["report", &recording, "--format", "heaptrack", "-o", &file];
        (Heapattach::new(words).run().expect(status), file)
    };
    let begins = |file: &str, bytes: &[u8]| fs::read(file).is_ok_and(|all| all.starts_with(bytes));
    assert!(begins(&export("x.heaptrack", 0).1, b"v 10"), "as it is");
    assert!(begins(&export("x.heaptrack.gz", 0).1, &[0x1f, 0x8b]), "packed");
    let (refused, _) = export("x.heaptrack.zst", FAILED);
    assert!(refused.stderr.contains("name it .gz"), "{}", refused.stderr);
    if !is_there("heaptrack_print") {
        return skip("no heaptrack_print here", "apt-get install heaptrack");
    }
    let read = Command::new("heaptrack_print").arg(folder.path("x.heaptrack")).output();
    let read = String::from_utf8_lossy(&read.expect("it is there").stdout).into_owned();
    assert!(read.contains("total runtime"), "{read}");
}

#[test]
fn a_recording_that_is_there_is_written_over_only_if_that_is_asked_for() {
    let folder = Folder::new();
    let (file, mark) = (folder.path("a.heapattach"), folder.path("mark"));
    fs::write(&file, "precious").expect("a folder of ours");
    let run = |force: &[&str]| {
        Heapattach::new([&["run"], force, &["-o", &file, "--", "touch", &mark]].concat()).run()
    };
    let refused = run(&[]).expect(RUN_FAILED);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    assert!(!Path::new(&mark).exists(), "the program has not run");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "precious");
    run(&["--force"]).expect(0);
    assert!(Path::new(&mark).exists());
    Heapattach::new(["report", &file]).run().expect(0);
}

#[test]
fn how_a_program_ended_is_told_as_it_was() {
    let ends = [
        ("exit 3", 3, "it exited with status 3;"),
        ("exit 0", 0, "it exited with status 0;"),
        ("kill -SEGV $$", 139, "signal 11 (SIGSEGV) ended it;"),
        // As the kernel does it where memory runs out.
        ("kill -KILL $$", 137, "signal 9 (SIGKILL"),
    ];
    for (script, status, words) in ends {
        for more in [&[][..], &["--follow-forks"]] {
            let line = [&["run", "--no-record"], more, &["--", "sh", "-c", script]].concat();
            let outcome = Heapattach::new(&line).run().expect(status);
            assert!(outcome.stderr.contains(words), "{line:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_dumb_terminal_is_sent_no_colours() {
    if !is_there("script") {
        return skip("no script here", "apt-get install bsdutils");
    }
    let shown = |term: &str| {
        let command = format!("{} run --no-record -- true", binary().display());
        let mut script = Command::new("script");
        let script = script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null());
        let script = script.env("TERM", term).env_remove("NO_COLOR").stdout(Stdio::piped());
        let mut child = script.spawn().expect("it is there");
        let mut bytes = Vec::new();
        child.stdout.take().expect("piped").read_to_end(&mut bytes).expect("a pipe");
        let _ = child.wait();
        assert!(bytes.windows(6).any(|six| six == b"TARGET"), "no report");
        bytes.contains(&0x1b)
    };
    assert!(shown("xterm"), "or the test proves nothing");
    assert!(!shown("dumb"));
}
