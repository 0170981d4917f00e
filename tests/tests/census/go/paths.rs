//! Paths that lead through large maps and through what interfaces have, beside what the program itself tells.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use heapattach_tests::{
    command::Heapattach,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

use super::locals::Running;

/// Objects and bytes by their path.
type Told = BTreeMap<String, (u64, u64)>;

/// What a program tells, and the report of its objects.
fn look(program: &Path) -> (Told, Value) {
    let mut child = Command::new(program).stderr(Stdio::piped()).spawn().expect("a program");
    let output = BufReader::new(child.stderr.take().expect("its output"));
    let running = Running(child);
    let mut told = Told::new();
    for line in output.lines() {
        let line = line.expect("text");
        let Some(rest) = line.strip_prefix("path ") else { break };
        let mut words = rest.splitn(3, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        let sum = (number(), number());
        told.insert(words.next().expect("a path").to_owned(), sum);
    }
    running.wait_until_stopped();
    let pid = running.0.id().to_string();
    let words = ["heap", "-p", &pid, "--view", "holders", "--json"];
    (told, serde_json::from_str(&Heapattach::new(words).run().expect(0).stdout).expect("JSON"))
}

/// All paths of a report, and what they and all that go on from them have.
fn paths(report: &Value) -> Told {
    let rows = report["go"]["holders"].as_array().expect("holders");
    let mut names: Vec<String> = Vec::new();
    let mut all = Told::new();
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let before = row["before"].as_u64().and_then(|before| usize::try_from(before).ok());
        let path = match before.and_then(|before| names.get(before)) {
            Some(before) => format!("{before} > {name}"),
            None => name.to_owned(),
        };
        let number = |key: &str| row["all"][key].as_u64().expect("a number");
        all.insert(path.clone(), (number("blocks"), number("bytes")));
        names.push(path);
    }
    all
}

#[test]
fn large_maps_and_interfaces_of_functions_are_steps_of_paths_as_others_are() {
    for compiler in &go_releases() {
        let (told, report) = look(&go_by(compiler, "paths.go", &[]));
        assert_eq!(told.len(), 6, "{told:?}");
        let paths = paths(&report);
        for (path, sum) in &told {
            assert_eq!(paths.get(path), Some(sum), "{}: {path}: {paths:#?}", compiler.0);
        }
    }
}

#[test]
fn large_maps_of_stripped_programs_are_steps_of_paths() {
    for compiler in &go_releases() {
        let (told, report) = look(&go_by(compiler, "paths.go", &["-ldflags=-s -w"]));
        let (path, sum) = told.iter().find(|(path, _)| path.contains("main.users")).expect("one");
        let (_, step) = path.split_once(" > ").expect("a step");
        let all = paths(&report);
        let found = all.iter().any(|(path, own)| {
            let mut steps = path.split(" > ");
            own == sum && steps.next().is_some() && steps.eq([step])
        });
        assert!(found, "{}: {all:#?}", compiler.0);
    }
}
