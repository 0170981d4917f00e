//! What CPython's own allocator has, and Python objects by their type, beside what the interpreter counts.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use heapattach_tests::{command::Heapattach, real::python, skip::skip};
use serde_json::Value;

/// Objects that are known, and an interpreter that waits with them.
struct Objects {
    child: Child,
    truth: Value,
}

impl Objects {
    fn start(interpreter: &Path, environment: &[(&str, &str)]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/census/objects.py");
        let mut child = Command::new(interpreter)
            .arg(script)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an interpreter");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let truth = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Self { child, truth }
    }

    fn look(&self, more: &[&str]) -> Value {
        let pid = self.child.id().to_string();
        let words = ["heap", "-p", &pid, "--json"];
        let outcome = Heapattach::new(words.iter().chain(more)).run().expect(0);
        serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It waits for the end of its input.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The interpreter that `python3` names, that of the system, and those that pyenv has.
fn interpreters() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = python().into_iter().collect();
    let system = Path::new("/usr/bin/python3");
    found.extend(system.is_file().then(|| system.to_owned()));
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let versions = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let own = versions.into_iter().flatten().flatten().map(|one| one.path().join("bin/python3"));
    found.extend(own.filter(|path| path.is_file()));
    found.retain(|path| minor(path).is_some_and(|minor| (8..=13).contains(&minor)));
    found.sort();
    found.dedup();
    if found.is_empty() {
        skip("no CPython of 3.8 to 3.13 here", "apt-get install python3");
    }
    found
}

fn minor(interpreter: &Path) -> Option<u32> {
    let print = "import sys; print(sys.version_info[1] if sys.version_info[0] == 3 else 0)";
    let output = Command::new(interpreter).args(["-c", print]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

fn classes(document: &Value) -> BTreeMap<&str, u64> {
    let rows = document["classes"].as_array().expect("classes").iter();
    let rows = rows.filter(|row| row["language"] == "python");
    rows.map(|row| (row["name"].as_str().expect("a name"), row["blocks"].as_u64().expect("blocks")))
        .collect()
}

fn assert_classes(document: &Value, truth: &Value, what: &str) {
    let told = classes(document);
    for (name, number) in truth["own"].as_object().expect("own classes") {
        assert_eq!(told.get(name.as_str()).copied(), number.as_u64(), "{what}: {name} in {told:?}");
    }
    // Objects that the collector does not track are there besides; types can be variables of a module.
    for (name, number) in truth["tracked"].as_object().expect("tracked") {
        let name = if name == "deque" { "collections.deque" } else { name };
        let told = told.get(name).copied().unwrap_or(0);
        let number = number.as_u64().expect("a number");
        assert!(told + 4 >= number, "{what}: {name}: {told} told, {number} tracked");
    }
}

#[test]
fn every_object_of_known_classes_is_told_and_every_pool_agrees() {
    for interpreter in interpreters() {
        let what = interpreter.display().to_string();
        let objects = Objects::start(&interpreter, &[]);
        let document = objects.look(&[]);
        let allocators = document["allocators"].as_array().expect("allocators");
        let inner = allocators.iter().find(|one| one["name"] == "pymalloc").expect(&what);
        assert_eq!(inner["is_exact"], true, "{what}: {inner}");
        assert!(allocators.iter().all(|one| one["is_exact"] == true), "{what}: {allocators:?}");
        assert_classes(&document, &objects.truth, &what);
    }
}

#[test]
fn objects_in_blocks_of_the_c_library_have_their_types_too() {
    let Some(interpreter) = interpreters().into_iter().next() else { return };
    let objects = Objects::start(&interpreter, &[("PYTHONMALLOC", "malloc")]);
    let document = objects.look(&[]);
    let allocators = document["allocators"].as_array().expect("allocators");
    assert!(allocators.iter().all(|one| one["name"] != "pymalloc"), "{allocators:?}");
    assert_classes(&document, &objects.truth, "PYTHONMALLOC=malloc");
}

#[test]
fn an_interpreter_has_leaked_nothing() {
    let Some(interpreter) = interpreters().into_iter().next() else { return };
    let objects = Objects::start(&interpreter, &[]);
    let found = &objects.look(&["--unreachable"])["unreachable"];
    assert_eq!(found["error"], Value::Null, "{found}");
    assert_eq!(found["direct"]["blocks"], 0, "{found}");
}
