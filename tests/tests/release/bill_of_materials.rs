//! The bill of materials: each of its facts beside what cargo and Cargo.lock say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::Command,
};

use heapattach_tests::{
    release::files::{Release, TARGET, workspace},
    toolchain::python_with,
};
use serde_json::Value;

/// A crate: its name and version.
type Crate = (String, String);

/// What no manifest names, and every program of the target has in it.
const RUNTIMES: [&str; 2] = ["musl", "rust-std"];

/// Compiled and embedded by the build script of the command.
const EMBEDDED: [&str; 2] = ["heapattach-abi", "heapattach-payload"];

const VALIDATE: &str = "\
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()))";

fn bill(release: &Release) -> Value {
    let text = fs::read_to_string(release.file(".cdx.json")).expect("it was there");
    serde_json::from_str(&text).expect("JSON")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// The crates of the bill that have this scope.
fn crates(bill: &Value, scope: Option<&str>) -> BTreeSet<Crate> {
    let components = bill["components"].as_array().expect("a list");
    let wanted = |component: &&Value| scope.is_none_or(|scope| component["scope"] == scope);
    let named = |component: &Value| (text(&component["name"]), text(&component["version"]));
    let runtime = |found: &Crate| RUNTIMES.contains(&found.0.as_str());
    components.iter().filter(wanted).map(named).filter(|found| !runtime(found)).collect()
}

/// What cargo says that the command is built from, by this kind of edges; the command itself aside.
fn tree(edges: &str) -> BTreeSet<Crate> {
    let mut cargo = Command::new("cargo");
    cargo.args(["tree", "--locked", "-p", "heapattach", "--features", "debuginfod,push"]);
    cargo.args(["--target", TARGET, "--prefix", "none", "--edges", edges]).current_dir(workspace());
    let output = cargo.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("text");
    let named = |line: &str| -> Option<Crate> {
        let (name, rest) = line.split_once(" v")?;
        Some((name.to_owned(), rest.split(' ').next()?.to_owned()))
    };
    lines.lines().filter_map(named).filter(|found| found.0 != "heapattach").collect()
}

/// The sums of Cargo.lock.
fn locked() -> BTreeMap<Crate, String> {
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).expect("the lock file");
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|value| value.trim_end_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1);
    let entry = |package| {
        let found = (value(package, "name")?, value(package, "version")?);
        Some((found, value(package, "checksum").unwrap_or_default()))
    };
    packages.filter_map(entry).collect()
}

#[test]
fn it_lists_what_cargo_links_and_what_ran_at_build_time() {
    let Some(release) = Release::found() else { return };
    let bill = bill(&release);
    let mut linked = tree("normal,no-proc-macro");
    let version = env!("CARGO_PKG_VERSION").to_owned();
    linked.extend(EMBEDDED.map(|name| (name.to_owned(), version.clone())));
    assert_eq!(crates(&bill, Some("required")), linked);
    assert_eq!(crates(&bill, None), tree("normal,build"));
    let listed = bill["components"].as_array().expect("a list");
    for name in RUNTIMES {
        let runtime = listed.iter().find(|component| component["name"] == name);
        let version = runtime.map(|runtime| text(&runtime["version"])).expect("a component");
        assert!(version.starts_with("1."), "{name} {version}");
    }
}

#[test]
fn its_sums_are_those_of_the_lock_file_and_of_the_command() {
    let Some(release) = Release::found() else { return };
    let (bill, locked) = (bill(&release), locked());
    for component in bill["components"].as_array().expect("a list") {
        let found = (text(&component["name"]), text(&component["version"]));
        if RUNTIMES.contains(&found.0.as_str()) {
            continue;
        }
        let sum = component["hashes"][0]["content"].as_str().unwrap_or_default();
        assert_eq!(locked.get(&found).map(String::as_str), Some(sum), "{found:?}");
        assert_eq!(sum.is_empty(), found.0.starts_with("heapattach"), "{found:?}");
    }
    let sums = fs::read_to_string(release.folder().join("SHA256SUMS")).expect("it was there");
    let command = &bill["metadata"]["component"];
    let sum = text(&command["hashes"][0]["content"]);
    assert!(sums.contains(&format!("{sum}  heapattach-")), "{sum}: {sums}");
    assert!(sums.lines().any(|line| line.starts_with(&sum) && line.ends_with("-x86_64-linux")));
}

#[test]
fn its_arrows_lead_from_the_command_to_every_part_that_is_linked() {
    let Some(release) = Release::found() else { return };
    let bill = bill(&release);
    let arrows = bill["dependencies"].as_array().expect("a list");
    let arrows: BTreeMap<_, _> =
        arrows.iter().map(|a| (text(&a["ref"]), &a["dependsOn"])).collect();
    let mut reached = BTreeSet::new();
    let mut next = vec![text(&bill["metadata"]["component"]["bom-ref"])];
    while let Some(name) = next.pop() {
        if reached.insert(name.clone()) {
            let uses = arrows.get(&name).unwrap_or_else(|| panic!("{name} is not listed"));
            next.extend(uses.as_array().expect("a list").iter().map(text));
        }
    }
    for (name, version) in crates(&bill, None) {
        assert!(reached.contains(&format!("pkg:cargo/{name}@{version}")), "{name} {version}");
    }
}

#[test]
fn it_is_what_the_schema_of_cyclonedx_demands() {
    let Some(release) = Release::found() else { return };
    let Some(python) =
        python_with("cyclonedx.validation.json", "cyclonedx-python-lib[json-validation]")
    else {
        return;
    };
    let file = fs::File::open(release.file(".cdx.json")).expect("it was there");
    let output = Command::new(python).args(["-c", VALIDATE]).stdin(file).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_license_of_everything_that_is_linked_is_passed_on() {
    let Some(release) = Release::found() else { return };
    let licenses = fs::read_to_string(release.file("-licenses.txt")).expect("it was there");
    for (name, version) in crates(&bill(&release), Some("required")) {
        assert!(licenses.contains(&format!("\n{name} {version} (")), "{name} {version}");
    }
    for name in RUNTIMES {
        assert!(licenses.contains(&format!("\n{name} 1.")), "{name}");
    }
}
