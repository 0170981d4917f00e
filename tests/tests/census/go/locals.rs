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

pub struct Running(pub Child);

impl Running {
    /// Waits until it has stopped itself.
    pub fn wait_until_stopped(&self) {
        let status = format!("/proc/{}/status", self.0.id());
        while !std::fs::read_to_string(&status).expect("it runs").contains("State:\tT") {
            std::thread::yield_now();
        }
    }
}

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
    running.wait_until_stopped();
    let text =
        Heapattach::new(["heap", "-p", &pid, "--view", "holders", "--json"]).run().expect(0).stdout;
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

/// What each variable of a function retains: rows below that of their function.
fn retained(report: &Value) -> Told {
    let rows = report["holders"]["holders"].as_array().expect("rows");
    let above = |row: &Value| rows.get(usize::try_from(row["before"].as_u64()?).ok()?);
    let of_function = |row: &&Value| {
        let own = row["name"].as_str().zip(above(row).and_then(|above| above["name"].as_str()));
        own.is_some_and(|(name, above)| name.starts_with(&format!("{above}.")))
            && above(row).is_some_and(|above| above["root"] == "stacks")
    };
    let of = |row: &Value| {
        let number = |key: &str| row["retained"][key].as_u64().expect("a number");
        (row["name"].as_str().expect("a name").to_owned(), (number("blocks"), number("bytes")))
    };
    rows.iter().filter(of_function).map(of).collect()
}

#[test]
fn what_variables_of_functions_lead_to_is_told_by_their_names() {
    for compiler in &go_releases() {
        let (told, report) = look(&go_by(compiler, "locals.go", &[]));
        assert_eq!(told.len(), 8, "{told:?}");
        let (roots, retained) = (roots(&report), retained(&report));
        let typed = report["go"]["typed"]["bytes"].as_u64().expect("a number");
        let reached = report["go"]["reached"]["bytes"].as_u64().expect("a number");
        for (name, own) in &told {
            assert_eq!(roots.get(name), Some(own), "{}: {name}: {roots:#?}", compiler.0);
            // What is inlined lies on the stack of the function that it is in; what a function was given, its caller has, too.
            let is_shared = ["main.inner.deep", "main.argument.given"].contains(&name.as_str());
            let own = Some(own).filter(|_| !is_shared);
            assert_eq!(retained.get(name).filter(|_| !is_shared), own, "{name}: {retained:#?}");
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
