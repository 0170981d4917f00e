//! The profile that a Go program keeps itself, read from outside: what the program says of it, no more and no
//! less, and no trace of the look.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    Folder,
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    toolchain::{go, go_with, go_with_c_and},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

/// A Go program that has told its truth.
struct Told {
    child: Child,
    log: PathBuf,
    _folder: Folder,
}

impl Told {
    fn start(program: &PathBuf, args: &[&str]) -> Self {
        let folder = Folder::new("go-profile");
        let log = folder.0.join("log");
        let out = File::create(&log).expect("a folder of ours");
        let child = Command::new(program).args(args).stdout(Stdio::from(out)).spawn();
        let this = Self { child: child.expect("just built"), log, _folder: folder };
        wait_until("the truth", PATIENCE, || this.text().contains("ready"));
        this
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// What it said of a function: bytes in use, and allocated.
    fn truth(&self, name: &str) -> [f64; 2] {
        let text = self.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it was told");
        let numbers: Vec<f64> =
            line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        [numbers[0], numbers[1]]
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a report says of a function.
fn told(report: &Value, name: &str) -> [f64; 2] {
    let sites = report["heap"]["sites"].as_array().expect("sites").iter();
    let own = sites.filter(|site| is_of(site, name));
    own.fold([0.0; 2], |[live, all], site| {
        let number = |what: &str| site[what]["bytes"]["value"].as_f64().expect("a number");
        [live + number("live"), all + number("allocated")]
    })
}

/// Whether a function caused what a site allocated.
fn is_of(site: &Value, name: &str) -> bool {
    let cause = site["cause"].as_u64().and_then(|cause| usize::try_from(cause).ok()).unwrap_or(0);
    site["frames"][cause]["function"] == name
}

fn report(pid: i32, more: &[&str]) -> Value {
    let args = ["-p", &pid.to_string(), "--json", "--no-record", "--duration", "300ms"];
    let command = more.iter().fold(Heapattach::new(args).target(pid), |c, word| c.arg(*word));
    serde_json::from_str(&command.run().expect(0).stdout).expect("JSON")
}

fn assert_same(told: [f64; 2], truth: [f64; 2], what: &str) {
    for (told, truth) in told.into_iter().zip(truth) {
        assert!((told - truth).abs() <= 1.0 + truth * 1e-9, "{what}: told {told}, truth {truth}");
    }
}

#[test]
fn a_program_at_rest_is_told_as_it_tells_itself_stripped_or_not() {
    // Code that was not optimized does not tell where variables are, but debug data does.
    let plain: &[&str] = &["-gcflags=all=-N -l"];
    for flags in [&[][..], &["-ldflags=-s -w"], &["-buildmode=pie"], plain] {
        let Some(program) = go_with("keeps.go", flags) else { return };
        let target = Told::start(&program, &[]);
        let before = Fingerprint::of(target.pid()).expect("it runs");
        let report = report(target.pid(), &[]);
        assert_eq!(report["target"], "untouched", "{report:#}");
        for name in ["main.keep", "main.churn"] {
            assert_same(told(&report, name), target.truth(name), &format!("{flags:?} {name}"));
        }
        let sites = report["heap"]["sites"].as_array().expect("sites");
        let first = sites.iter().find(|site| is_of(site, "main.keep")).expect("it holds most");
        if flags.is_empty() {
            assert!(first["place"].as_str().is_some_and(|p| p.contains("keeps.go:")), "{first:#}");
        }
        let after = Fingerprint::of(target.pid()).expect("it runs");
        // Its runtime works a little, even at rest.
        let mut trace = diff_within(&before, &after, Scope::Loose);
        // Threads of its runtime come to work and to rest by themselves.
        trace.retain(|line| !line.starts_with("thread "));
        assert_eq!(trace, Vec::<String>::new());
    }
}

#[test]
fn a_program_that_is_linked_by_others_or_looks_for_races_is_told_as_it_tells_itself() {
    for flag in ["-ldflags=-linkmode=external", "-race"] {
        let Some(program) = go_with_c_and("keeps.go", &[flag]) else { return };
        let target = Told::start(&program, &[]);
        let report = report(target.pid(), &[]);
        assert_eq!(report["target"], "restored", "{report:#}");
        // It has a C library, and so two heaps.
        let go = &report["processes"][0];
        assert!(go["heap_of"].as_str().is_some_and(|name| name.starts_with("go1.")), "{report:#}");
        for name in ["main.keep", "main.churn"] {
            assert_same(told(go, name), target.truth(name), &format!("{flag} {name}"));
        }
    }
}

#[test]
fn what_grows_in_a_go_program_is_named_in_the_first_sentence_and_recorded() {
    let Some(program) = go("keeps.go") else { return };
    let target = Told::start(&program, &["on"]);
    let folder = Folder::new("go-recording");
    let file = folder.0.join("go.heapattach");
    let args = ["-p", &target.pid().to_string(), "--duration", "3s", "-o"];
    let run = Heapattach::new(args).arg(file.clone()).target(target.pid()).run().expect(0);
    assert!(run.stderr.contains("it is not touched"), "{}", run.stderr);
    let verdict = run.stdout.lines().find(|line| line.starts_with("VERDICT")).unwrap_or_default();
    assert!(verdict.contains("main.keep"), "{}", run.stdout);
    assert!(!run.stdout.contains("older than the attach"), "{}", run.stdout);
    let again = Heapattach::new(["report"]).arg(file).arg("--view").arg("tree").run().expect(0);
    assert!(again.stdout.contains("main.keep"), "{}", again.stdout);
}

/// The bytes that each of its two functions has, by the JSON of `run`, in which the program is ended after it came to rest.
#[test]
fn a_program_that_run_starts_is_read_to_its_end_and_ends_as_it_ends() {
    let Some(program) = go("keeps.go") else { return };
    let folder = Folder::new("go-run");
    let (json, file) = (folder.0.join("report.json"), folder.0.join("go.heapattach"));
    let words = ["run", "-o", file.to_str().expect("a path of ours")];
    let command = Heapattach::new(words).arg(format!("--json={}", json.display())).arg("--");
    let running = command.arg(&program).start();
    wait_until("the truth", PATIENCE, || running.output().contains("ready"));
    let talk = running.talk();
    let told_pid = talk.split("reading of ").nth(1).and_then(|rest| rest.split(' ').next());
    let pid: i32 = told_pid.and_then(|pid| pid.parse().ok()).unwrap_or_else(|| panic!("{talk}"));
    // Between two readings, so that the last one is of a program at rest.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let text = running.output();
    kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
    let outcome = running.wait();
    assert_eq!(outcome.code(), Some(128 + 15), "{outcome:?}");
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("a report")).expect("JSON");
    let blind = report["blind"].to_string();
    assert!(blind.contains("before the program ended"), "{blind}");
    assert_eq!(report["exit"]["signal"], 15, "{}", report["exit"]);
    for name in ["main.keep", "main.churn"] {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("it was told");
        let numbers: Vec<f64> =
            line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
        assert_same(told(&report, name), [numbers[0], numbers[1]], name);
    }
    let again = Heapattach::new(["report"]).arg(file).arg("--view").arg("tree").run().expect(0);
    assert!(again.stdout.contains("main.keep"), "{}", again.stdout);
}
