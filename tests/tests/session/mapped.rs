//! A program that leaks mappings, seen by everything that looks for growth and for leaks: triggers, marks,
//! limits, comparisons, exports and the check; and what it keeps, which is no leak.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use heapattach_ledger::Memory;
use heapattach_tests::{
    check,
    command::{Heapattach, Outcome},
    compile::Source,
    recorded::Recorded,
};
use serde_json::Value;

/// What one of them has.
const BUFFER: u64 = 64 << 10;
/// Of those that end by themselves so many are leaked.
const COUNT: u64 = 40;

/// The program, killed with the test.
struct Program(Child);

impl Program {
    /// One that leaks eight mappings a second.
    fn growing() -> Option<Self> {
        let mut command = Command::new(built()?);
        let pipes = command.arg("125").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = pipes.spawn().expect("a program of ours");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("it says when it is ready");
        assert_eq!(line, "ready\n");
        Some(Self(child))
    }

    fn look(&self, words: &[&str], options: &[&str]) -> Outcome {
        let pid = self.0.id().to_string();
        Heapattach::new([words, &["-p", &pid], options].concat()).run()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn built() -> Option<PathBuf> {
    Source::new("growing_mappings.c").flag("-pthread").build()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn growth_of_mapped_memory_ends_a_session_and_marks_moments() {
    let Some(program) = Program::growing() else { return };
    let file = Recorded::new();
    let path = file.0.to_str().expect("a path of ours");
    let options = ["--json", "--duration", "2h", "--until-growth", "10MiB/min"];
    let marks = ["--growth-window", "5s", "--dump-on-growth", "1MiB", "-o", path];
    let outcome = program.look(&[], &[&options[..], &marks].concat()).expect(0);
    let came = outcome.report().trigger.expect("it grows by 30 MiB a minute");
    assert_eq!((&came["kind"], &came["measure"]), (&"growth".into(), &"mapped".into()), "{came}");
    let recording = file.open();
    let marks = recording.marks();
    assert!(marks.iter().any(|mark| mark.why == "mapped memory has grown"), "{marks:?}");
    let verdict = &json(&outcome.stdout)["summary"]["verdict"];
    let text = verdict["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("Mapped memory grows by "), "{text}");
    assert!(text.contains("map (growing_mappings.c:20), called from leak_buffer"), "{text}");
    // From its moments on.
    let moments = ["1s", "2s", "3s"].map(|at| format!("{path}@{at}"));
    let [a, b, c] = moments.each_ref().map(String::as_str);
    let two = json(&Heapattach::new(["diff", a, c, "--json"]).run().expect(0).stdout);
    let change = &two["mapped"]["sites"][0];
    assert_eq!(change["function"], "map", "{two:#}");
    assert!(change["change"]["bytes"]["value"].as_f64() > Some(0.0), "{two:#}");
    let three = json(&Heapattach::new(["diff", a, b, c, "--json"]).run().expect(0).stdout);
    assert_eq!(three["mapped"]["sites"][0]["growth"], "every_step", "{three:#}");
}

#[test]
fn limits_on_growth_and_on_what_is_in_use_hold_for_mapped_memory() {
    let Some(program) = Program::growing() else { return };
    let limits = ["--max-live", "100KiB", "--max-peak", "100KiB", "--max-growth", "1MiB/min"];
    let options = ["--fail-on", "growing", "--max-pause", "60s", "--duration", "8s", "--json"];
    let outcome = program.look(&["check"], &[&limits[..], &options].concat()).expect(23);
    let report = json(&outcome.stdout);
    let breaches = report["findings"]["breaches"].as_array().expect("a list");
    let limits: Vec<&str> = breaches.iter().filter_map(|breach| breach["limit"].as_str()).collect();
    let all = ["--max-growth", "--fail-on growing", "--max-peak", "--max-live"];
    assert_eq!(limits, all, "{report:#}");
}

#[test]
fn a_mapping_to_which_nothing_leads_is_leaked_and_one_that_is_kept_is_not() {
    let folder = std::env::temp_dir().join(format!("heapattach-mapped-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary folder");
    let path = |name: &str| folder.join(name).display().to_string();
    let (junit, sarif) = (path("junit.xml"), path("sarif.json"));
    let Some(program) = built() else { return };
    let options = ["--junit", &junit, "--sarif", &sarif];
    let result = check::run(&program, &["1", "40"], &[], &options);
    let forms = [&junit, &sarif].map(|path| fs::read_to_string(path).expect("it was written"));
    let _ = fs::remove_dir_all(&folder);
    assert_eq!(result.code, Some(23), "{}", result.talk);
    assert_eq!(result.lost(), [(COUNT * BUFFER, COUNT), (0, 0), (0, 0)], "{:#}", result.report);
    let frames = &result.check()["findings"][0]["frames"];
    let names = [0, 1, 2].map(|at| frames[at]["function"].as_str().unwrap_or_default());
    assert_eq!(names, ["[mapped]", "map", "leak_buffer"]);
    for form in forms {
        assert!(form.contains("leak_buffer"), "{form}");
    }
}

#[test]
fn exports_of_a_recording_have_what_is_mapped_to_the_byte() {
    let file = Recorded::new();
    let path = file.0.to_str().expect("a path of ours");
    let Some(program) = built() else { return };
    let program = program.display().to_string();
    // It has leaked some when it ends.
    Heapattach::new(["run", "-o", path, "--", &program, "1", "40"]).run().expect(0);
    let kept = 1 << 20;
    let report = |options: &[&str]| {
        Heapattach::new([&["report", path], options].concat()).run().expect(0).stdout
    };
    let told = report(&["--format", "collapsed"]);
    let of = |name: &str| {
        let line =
            told.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{told}"));
        line.rsplit(' ').next().and_then(|number| number.parse::<u64>().ok())
    };
    assert_eq!(of(";leak_buffer;map;[mapped] "), Some(COUNT * BUFFER), "{told}");
    assert_eq!(of(";keep_buffer;map;[mapped] "), Some(kept), "{told}");
    assert!(!told.contains("[thread stack]"), "it is no memory of the program's: {told}");
    let mapped = json(&report(&["--view", "sites", "--metric", "mapped", "--json"]));
    let ledger = file.ledger().of(Memory::Mapped);
    let live = ledger.total.measure(heapattach_ledger::Metric::Live).bytes.value;
    assert_eq!(mapped["total"]["bytes"]["value"].as_f64(), Some(live), "{mapped:#}");
    let stacks = mapped["sites"].as_array().expect("a list");
    assert!(stacks.iter().any(|site| site["function"] == "[thread stack]"), "{mapped:#}");
}
