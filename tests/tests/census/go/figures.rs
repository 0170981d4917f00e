//! What a Go program's runtime counts, told by `allocator` as `runtime.ReadMemStats` tells it: of each release
//! that is here, stripped or not; advice where collections cost; and nothing is touched.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    json_schema::faults,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

struct Program {
    child: Child,
    told: String,
}

impl Program {
    fn start(program: &Path, mode: &str, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        // With more, threads of the runtime begin while it tells, and that takes objects.
        command.arg(mode).env("GOMAXPROCS", "1").envs(environment.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("a program");
        let mut told = String::new();
        let output = child.stderr.take().expect("its output");
        BufReader::new(output).read_line(&mut told).expect("a line");
        let this = Self { child, told };
        if mode != "busy" {
            wait_until("the program stops itself", PATIENCE, || {
                let status = std::fs::read_to_string(format!("/proc/{}/status", this.child.id()));
                status.is_ok_and(|status| status.contains("State:\tT"))
            });
        }
        this
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn truth(&self) -> Vec<(&str, u64)> {
        let words: Vec<&str> = self.told.split_whitespace().collect();
        words.chunks(2).map(|pair| (pair[0], pair[1].parse().expect("a number"))).collect()
    }

    fn look(&self, more: &[&str]) -> Value {
        let pid = self.pid().to_string();
        let words = ["allocator", "-p", &pid, "--json"];
        let text = Heapattach::new(words.iter().chain(more)).run().expect(0).stdout;
        let all = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        all.last().expect("a document").unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is told that the runtime does not tell so, or tells otherwise.
fn differences(program: &Program, own: &Value) -> Vec<String> {
    let truth = program.truth();
    assert!(truth.len() > 25, "{}", program.told);
    let differ = |(name, truth): &(&str, u64)| {
        let told = match *name {
            "limit" => own["opt"]["GOMEMLIMIT"].as_u64().unwrap_or(i64::MAX.cast_unsigned()),
            name => own["stats"][name].as_u64()?,
        };
        (told != *truth).then(|| format!("{name}: {told}, not {truth}"))
    };
    let missing = |(name, _): &&(&str, u64)| *name != "limit" && own["stats"][*name].is_null();
    let missing = truth.iter().filter(missing).map(|(name, _)| format!("{name} is missing"));
    truth.iter().filter_map(differ).chain(missing).collect()
}

#[test]
fn every_figure_is_what_the_runtime_says_of_each_release_stripped_or_not() {
    for compiler in &go_releases() {
        for flags in [&[][..], &["-ldflags=-s -w"], &["-buildmode=pie", "-ldflags=-s -w"]] {
            let program = go_by(compiler, "figures.go", flags);
            for mode in ["rest", "limit", "waiting"] {
                let look = || {
                    let target = Program::start(&program, mode, &[]);
                    let before = Fingerprint::of(target.pid()).expect("it runs");
                    let report = target.look(&[]);
                    let after = Fingerprint::of(target.pid()).expect("it runs");
                    (target, before, report, after)
                };
                let mut looked = look();
                for _ in 0..2 {
                    // The runtime itself moves memory a while after a collection: another process is looked at.
                    if !differences(&looked.0, &looked.2["allocators"][0]).is_empty() {
                        looked = look();
                    }
                }
                let (target, before, report, after) = looked;
                let own = &report["allocators"][0];
                let name = format!("{} {flags:?} {mode}", compiler.0);
                assert_eq!(own["allocator"], "go", "{name}: {report:#}");
                assert_eq!(own["unknown"], Value::Array(Vec::new()), "{name}");
                assert_eq!(differences(&target, own), [""; 0], "{name}");
                assert_eq!(diff_within(&before, &after, Scope::Loose), [""; 0], "{name}");
                if mode == "waiting" {
                    assert!(own["stats"]["goroutines.waiting"].as_u64() >= Some(1000), "{own:#}");
                }
            }
        }
    }
}

#[test]
fn a_setting_is_told_with_where_it_comes_from() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "figures.go", &[]);
    let environment = [("GOGC", "50"), ("GOMEMLIMIT", "1GiB")];
    let target = Program::start(&program, "rest", &environment);
    let report = target.look(&[]);
    let schema = Heapattach::new(["schema", "allocator"]).run().expect(0).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &report), [""; 0], "{report:#}");
    let own = &report["allocators"][0];
    assert_eq!((&own["opt"]["GOGC"], &own["opt"]["GOMEMLIMIT"]), (&50.into(), &(1 << 30).into()));
    assert_eq!(own["origins"]["GOGC"]["environment"], "GOGC");
    let target = Program::start(&program, "limit", &environment);
    let own = &target.look(&[])["allocators"][0];
    assert_eq!((&own["opt"]["GOGC"], &own["origins"]["GOGC"]), (&300.into(), &"program".into()));
}

#[test]
fn a_program_that_collects_all_the_time_is_told_what_to_set() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "figures.go", &[]);
    let target = Program::start(&program, "busy", &[]);
    let report = target.look(&["--every", "1s", "--count", "3"]);
    let own = &report["allocators"][0];
    assert!(own["rates"]["per_second"]["NumGC"].as_f64() > Some(1.0), "{own:#}");
    let advice = own["advice"].as_array().expect("advice").iter();
    let time = advice.clone().find(|one| one["rule"] == "go_time");
    let time = time.unwrap_or_else(|| panic!("{advice:#?} {own:#}"));
    assert_eq!(time["setting"], "GOGC=10");
    let pid = target.pid().to_string();
    let text = Heapattach::new(["allocator", "-p", &pid]).run().expect(0).stdout;
    for told in ["heap        ", "goroutines  ", "GOGC=5,", "resident    "] {
        assert!(text.contains(told), "{told}: {text}");
    }
}
