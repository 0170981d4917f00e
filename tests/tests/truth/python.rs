//! Python functions that allocate memory are named, in every version that we can read, with the exact
//! number of bytes; and nothing that Python does to its own frames does harm.

use std::{collections::BTreeMap, path::PathBuf, process::Command, time::Duration};

use heapattach_ledger::{Ledger, Metric};
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    compile::{fixture, is_there},
    fixture::Launch,
    recorded::Recorded,
    skip::skip,
    truth::whole,
};

/// Bytes that each function asks for: a `bytearray` has one more than it is long.
const BYTES: [(&str, u64); 8] = [
    ("Cache.add", 50_045 + 10),
    ("Cache.Entry.make", 6001),
    ("generated", 5 * 7001),
    ("recursive", 8001),
    ("compared", 9001),
    ("key", 3 * 11_001),
    ("threaded", 4 * 12_001),
    ("nested.<locals>.inner", 13_001),
];

/// The same, by a library that was called.
const IN_C: (&str, u64) = ("in_c", 14_000);

/// Everything is recorded.
const ALL: [&str; 3] = ["--all", "--on-full", "wait"];

const WORK: u64 = 1;
const NONSENSE: u64 = 2;

/// All interpreters here that can be read.
fn interpreters() -> Vec<PathBuf> {
    let names = ["/usr/bin/python3", "python3.11", "python3.12", "python3.13", "python3.14"];
    let print = "import sys; print(sys.executable if sys.version_info >= (3, 11) else '')";
    let mut found: Vec<PathBuf> = Vec::new();
    let mut candidates: Vec<String> = names.iter().map(ToString::to_string).collect();
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    if let Some(root) = std::env::var_os("PYENV_ROOT").map(PathBuf::from).or_else(home) {
        let versions = std::fs::read_dir(root.join("versions"));
        let paths = versions.into_iter().flatten().flatten().map(|entry| entry.path());
        candidates.extend(paths.map(|path| path.join("bin/python3").display().to_string()));
    }
    for name in candidates {
        let output = Command::new(&name).args(["-c", print]).output();
        let Ok(output) = output else { continue };
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let path = path.canonicalize().unwrap_or(path);
        if output.status.success() && path.is_file() && !found.contains(&path) {
            found.push(path);
        }
    }
    if found.is_empty() {
        skip("no CPython of 3.11 or later here", "apt-get install python3");
    }
    found
}

/// What the fixture did, recorded.
fn recorded(interpreter: &PathBuf, options: &[&str], what: &str, arenas: bool) -> Ledger {
    let file = Recorded::new();
    let mut command = Heapattach::new(["run", "--json", "--report", "/dev/null", "-o"]);
    command = command.arg(&file.0);
    command = options.iter().fold(command, |command, option| command.arg(*option));
    command = command.arg("--").arg(interpreter).arg(fixture("python_frames.py")).arg(what);
    if !arenas {
        command = command.env("PYTHONMALLOC", "malloc");
    }
    command.run().expect(0);
    file.ledger()
}

/// Bytes by the Python function that caused them.
fn causes(ledger: &Ledger) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for row in &ledger.rows {
        let Some(call) = ledger.cause(row.stack) else { continue };
        if call.function.file.ends_with("python_frames.py") || call.function.file == "<string>" {
            *sums.entry(call.function.name.clone()).or_default() +=
                whole(row.measure(Metric::Allocated).bytes.value.floor());
        }
    }
    sums
}

/// Bytes of stacks whose innermost function of the fixture is this one.
fn below(ledger: &Ledger, function: &str) -> u64 {
    let rows = ledger.rows.iter().filter(|row| {
        let mut own = ledger.calls(row.stack).map(|call| call.function);
        let own = own.find(|function| function.file.ends_with("python_frames.py"));
        own.is_some_and(|own| own.name == function)
    });
    rows.map(|row| whole(row.measure(Metric::Allocated).bytes.value)).sum()
}

/// What was asked for, and a little that the interpreter needs for itself.
fn assert_bytes(what: &str, ledger: &Ledger) {
    let sums = causes(ledger);
    for (function, bytes) in BYTES {
        let told = sums.get(function).copied().unwrap_or(0);
        assert!((bytes..bytes + 2048).contains(&told), "{what}: {function} {told} in {sums:?}");
    }
    let told = below(ledger, IN_C.0);
    assert!((IN_C.1..IN_C.1 + 2048).contains(&told), "{what}: {} {told}", IN_C.0);
}

/// The functions of the fixture in the stack whose innermost one is this.
fn calls(ledger: &Ledger, function: &str) -> Vec<String> {
    let of_stack = |stack: u32| {
        let calls = ledger.calls(stack).map(|call| call.function);
        let own =
            calls.filter(|f| f.file.ends_with("python_frames.py") || f.name.contains("qsort"));
        own.map(|f| f.name.clone()).collect::<Vec<_>>()
    };
    let mut stacks = ledger.rows.iter().map(|row| of_stack(row.stack));
    let found = stacks.find(|calls| calls.first().is_some_and(|first| first == function));
    found.unwrap_or_default()
}

#[test]
fn every_function_has_the_bytes_that_it_asked_for() {
    for interpreter in interpreters() {
        let what = interpreter.display().to_string();
        let ledger = recorded(&interpreter, &ALL, "work", true);
        assert_bytes(&what, &ledger);
        let recursive = calls(&ledger, "recursive");
        let expected = [vec!["recursive"; 41], vec!["work", "<module>"]].concat();
        assert_eq!(recursive, expected, "{what}");
        let lines: Vec<_> = ledger
            .rows
            .iter()
            .filter_map(|row| ledger.cause(row.stack))
            .filter(|call| call.function.name == "compared")
            .map(|call| call.line)
            .collect();
        assert_eq!(lines, [Some(45)], "{what}");
    }
}

#[test]
fn a_live_interpreter_is_told_apart_from_the_first_call_on() {
    for interpreter in interpreters() {
        let what = interpreter.display().to_string();
        let mut fixture = Launch::program(&interpreter).arg(fixture("python_frames.py")).start();
        let file = Recorded::new();
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
        let command = ALL.iter().fold(command, |command, option| command.arg(*option));
        let attached = Attached::start(command, &mut fixture);
        fixture.step(WORK, 0);
        attached.end();
        let ledger = file.ledger();
        assert_bytes(&what, &ledger);
        // From Python through C to Python.
        let compared = calls(&ledger, "compared");
        let at = |name: &str| compared.iter().position(|call| call.contains(name));
        assert_eq!(at("compared"), Some(0), "{what}: {compared:?}");
        assert!(at("compared") < at("qsort") && at("qsort") < at("called_by_c"), "{compared:?}");
        assert_eq!(compared.last().map(String::as_str), Some("<module>"), "{what}: {compared:?}");
        fixture.finish();
    }
}

#[test]
fn frames_that_are_nonsense_do_no_harm() {
    for interpreter in interpreters() {
        let mut fixture = Launch::program(&interpreter).arg(fixture("python_frames.py")).start();
        let file = Recorded::new();
        let command = Attached::command(fixture.pid(), Hooks::Auto).arg("-o").arg(&file.0);
        let command = ALL.iter().fold(command, |command, option| command.arg(*option));
        let attached = Attached::start(command, &mut fixture);
        fixture.step(NONSENSE, 0);
        fixture.step(WORK, 0);
        attached.end();
        let ledger = file.ledger();
        let what = interpreter.display().to_string();
        let told = below(&ledger, "nonsense");
        assert!(told >= 8 * 15_000, "{what}: {told}");
        assert_bytes(&what, &ledger);
        fixture.finish();
    }
}

#[test]
fn code_that_takes_the_place_of_other_code_is_told_apart() {
    for interpreter in interpreters() {
        // Each block is larger than that, so each is a sample of its own.
        let options = ["--every", "16KiB", "--on-full", "wait"];
        let ledger = recorded(&interpreter, &options, "passing", true);
        let sums = causes(&ledger);
        let own: Vec<_> = sums.iter().filter(|(name, _)| name.starts_with("passing_")).collect();
        // A sample of something small may come to it.
        let wrong: Vec<_> = own.iter().filter(|(_, bytes)| **bytes / 20_001 != 1).collect();
        let what = interpreter.display();
        println!("{what}: {} functions, {} with wrong sums", own.len(), wrong.len());
        // Before 3.12 there is no number that tells code objects apart.
        let is_numbered = !what.to_string().contains("3.11");
        assert!(!is_numbered || (own.len() == 200 && wrong.is_empty()), "{what}: {own:?}");
        let all: u64 = own.iter().map(|(_, bytes)| **bytes).sum();
        assert!(all >= 200 * 20_001, "{what}: {all}");
    }
}

#[test]
fn without_arenas_every_object_is_somebodys() {
    for interpreter in interpreters() {
        let what = interpreter.display().to_string();
        let with = causes(&recorded(&interpreter, &ALL, "small", true));
        let without = causes(&recorded(&interpreter, &ALL, "small", false));
        let small = |sums: &BTreeMap<String, u64>| {
            let own = sums.iter().filter(|(name, _)| name.starts_with("small"));
            own.map(|(_, bytes)| bytes).sum::<u64>()
        };
        // Two thousand strings of some fifty bytes each.
        assert!(small(&without) > 90_000, "{what}: {without:?}");
        assert!(small(&with) < small(&without) / 2, "{what}: {with:?}");
    }
}

#[test]
fn a_report_says_what_is_hidden_and_how_to_see_it() {
    for interpreter in interpreters() {
        let command = Heapattach::new(["run", "--no-record", "--"]).arg(&interpreter);
        let told = command.arg(fixture("python_frames.py")).arg("work").run().expect(0).stderr;
        assert!(told.contains("CPython 3."), "{told}");
        assert!(told.contains("its functions are named"), "{told}");
        assert!(told.contains("PYTHONMALLOC=malloc"), "{told}");
    }
}

#[test]
fn functions_of_node_have_names_where_it_writes_them() {
    if !is_there("node") {
        return skip("no node here", "apt-get install nodejs");
    }
    let script = fixture("node_frames.js");
    let run = |flags: &[&str]| {
        let file = Recorded::new();
        let mut command = Heapattach::new(["run", "-o"]).arg(&file.0);
        command = command.arg("--every").arg("64KiB").arg("--").arg("node");
        command = flags.iter().fold(command, |command, flag| command.arg(*flag));
        // It leaves files of its own where it runs.
        let place = std::env::temp_dir().join(format!("heapattach-node-{}", std::process::id()));
        std::fs::create_dir_all(&place).expect("the temporary folder is ours to write");
        let command = command.arg(&script).limit(Duration::from_secs(60)).folder(&place);
        let outcome = command.run().expect(0);
        let _ = std::fs::remove_dir_all(&place);
        (file.ledger(), outcome.stderr)
    };
    let has = |ledger: &Ledger| {
        ledger.functions.iter().any(|function| function.name.contains("holdBuffers"))
    };
    let (named, told) = run(&["--perf-basic-prof", "--interpreted-frames-native-stack"]);
    let pid = told.split("attached to ").nth(1).and_then(|rest| rest.split(' ').next());
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", pid.expect("it was attached to")));
    assert!(has(&named), "{:?}", named.functions.len());
    let (nameless, told) = run(&[]);
    // Without these switches it is named by what V8 says of its structures; if that is not wanted, it is not.
    assert!(has(&nameless) && !told.contains("--perf-basic-prof"), "{told}");
}
