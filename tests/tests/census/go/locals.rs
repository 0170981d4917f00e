//! Variables of functions, beside what the program itself tells that each leads to.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::Heapattach,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

/// What the program tells: objects and bytes, by the variable.
type Told = BTreeMap<String, (u64, u64)>;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What a program tells, and the report of its objects.
fn look(program: &Path) -> (Told, Value) {
    let mut child = Command::new(program).stderr(Stdio::piped()).spawn().expect("a program");
    let output = BufReader::new(child.stderr.take().expect("its output"));
    let running = Running(child);
    let mut told = Told::new();
    for line in output.lines() {
        let line = line.expect("text");
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["local", name, objects, bytes] => {
                let number = |text: &str| text.parse().expect("a number");
                told.insert(name.to_owned(), (number(objects), number(bytes)));
            }
            _ => break,
        }
    }
    let pid = running.0.id().to_string();
    let status = format!("/proc/{pid}/status");
    while !std::fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
        std::thread::yield_now();
    }
    let text = Heapattach::new(["heap", "-p", &pid, "--json"]).run().expect(0).stdout;
    (told, serde_json::from_str(&text).expect("JSON"))
}

/// What is held from each root on.
fn roots(report: &Value) -> Told {
    let all = report["go"]["holders"].as_array().expect("holders").iter();
    let root = all.filter(|row| row["before"].is_null());
    let of = |row: &Value| {
        let number = |key: &str| row["all"][key].as_u64().expect("a number");
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, (number("blocks"), number("bytes")))
    };
    root.map(of).collect()
}

#[test]
fn what_variables_of_functions_lead_to_is_told_by_their_names() {
    for compiler in &go_releases() {
        let (told, report) = look(&go_by(compiler, "locals.go", &[]));
        assert_eq!(told.len(), 8, "{told:?}");
        let roots = roots(&report);
        let typed = report["go"]["typed"]["bytes"].as_u64().expect("a number");
        let reached = report["go"]["reached"]["bytes"].as_u64().expect("a number");
        for (name, own) in &told {
            assert_eq!(roots.get(name), Some(own), "{}: {name}: {roots:#?}", compiler.0);
        }
        assert!(typed * 100 >= reached * 94, "{}: {typed} of {reached} are typed", compiler.0);
    }
}

#[test]
fn without_debug_data_the_slot_of_the_function_is_told() {
    for compiler in &go_releases() {
        let (told, report) = look(&go_by(compiler, "locals.go", &["-ldflags=-s -w"]));
        let roots = roots(&report);
        for (name, (_, bytes)) in &told {
            let functions = match name.as_str() {
                // It may be inlined: then the one that it is in is told.
                "main.inner.deep" => ["main.inner", "main.inlined"],
                // What it was given lies in the frame of the one that called it.
                "main.argument.given" => ["main.argument", "main.main.func3"],
                name => [name.rsplit_once('.').expect("a function").0; 2],
            };
            let of = |root: &&String| {
                let slot = root.split_once("+0x").filter(|(_, slot)| slot.ends_with(" (slot)"));
                slot.is_some_and(|(function, _)| functions.contains(&function))
            };
            let held: u64 = roots.keys().filter(of).map(|root| roots[root].1).sum();
            assert!(held >= *bytes, "{}: {name}: {held}, not {bytes}: {roots:#?}", compiler.0);
        }
    }
}
