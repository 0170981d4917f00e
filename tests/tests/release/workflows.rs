//! The workflows of GitHub: that they run nothing that `.ci/run` does not run, and nothing that can change
//! under them.

use std::{fs, path::PathBuf, process::Command};

use heapattach_tests::{release::files::workspace, toolchain::python_with};
use serde_json::Value;

const READ: &str = "\
import json, sys
from ruamel.yaml import YAML
json.dump(YAML(typ='safe').load(sys.stdin), sys.stdout)";

/// Of GitHub itself. Others would see the source and the files of releases.
const ACTIONS: [&str; 3] =
    ["actions/checkout@", "actions/download-artifact@", "actions/upload-artifact@"];

/// Digits of a commit, by which an action is named.
const COMMIT: usize = 40;

fn files() -> Vec<PathBuf> {
    let folder = workspace().join(".github/workflows");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the workflows").flatten().map(|file| file.path()).collect();
    files.sort();
    files
}

/// All workflows; `None` (reported as skipped) where nothing reads YAML.
fn workflows() -> Option<Vec<Value>> {
    let python = python_with("ruamel.yaml", "check-jsonschema")?;
    let read = |path: PathBuf| {
        let file = fs::File::open(&path).expect("it was there");
        let output = Command::new(&python).args(["-c", READ]).stdin(file).output().expect("python");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {told}", path.display());
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    Some(files().into_iter().map(read).collect())
}

fn jobs(workflow: &Value) -> impl Iterator<Item = &Value> {
    workflow["jobs"].as_object().expect("jobs").values()
}

fn steps(workflow: &Value) -> impl Iterator<Item = &Value> {
    jobs(workflow).flat_map(|job| job["steps"].as_array().expect("a list"))
}

/// Whether `.ci/run` runs this command: a script as a step of its own with whatever words, or some of its jobs.
fn is_run(command: &str, script: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    if program == ".ci/run" {
        let list = script.lines().find_map(|line| line.strip_prefix("jobs=(")?.strip_suffix(')'));
        let all: Vec<_> = list.expect("the list of all jobs").split(' ').collect();
        return words.all(|job| all.contains(&job) && script.contains(&format!("job_{job}() {{")));
    }
    let step = format!("step {program} ");
    let mut lines = script.lines().map(|line| format!("{} ", line.trim()));
    program.starts_with(".ci/") && lines.any(|line| line.starts_with(&step))
}

#[test]
fn every_command_of_a_workflow_is_one_that_ci_runs() {
    let Some(workflows) = workflows() else { return };
    let script = fs::read_to_string(workspace().join(".ci/run")).expect("the script");
    let mut commands: Vec<&str> = Vec::new();
    for step in workflows.iter().flat_map(steps) {
        let Some(command) = step["run"].as_str() else { continue };
        assert!(!command.contains(['\n', '$', ';', '&', '|']), "not one plain command: {command}");
        assert!(is_run(command, &script), "{command}");
        commands.push(command);
    }
    // Between them, the workflows run all that it runs.
    let told = commands.join(" ");
    for job in ["release", "tests", "fixtures", "static", "lints", "packages"] {
        assert!(told.split(' ').any(|word| word == job), "{job}: {told}");
    }
    assert!(!is_run("cargo publish", &script) && !is_run(".ci/run nonsense", &script));
}

#[test]
fn actions_and_images_are_named_by_what_they_contain() {
    let Some(workflows) = workflows() else { return };
    let mut count = 0;
    for step in workflows.iter().flat_map(steps) {
        let Some(action) = step["uses"].as_str() else { continue };
        let commit = ACTIONS.into_iter().find_map(|name| action.strip_prefix(name));
        let hexadecimal = |commit: &str| commit.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(commit.is_some_and(|c| c.len() == COMMIT && hexadecimal(c)), "{action}");
        count += 1;
    }
    for job in workflows.iter().flat_map(jobs) {
        let image = job["container"]["image"].as_str();
        assert!(image.is_none_or(|image| image.contains("@sha256:")), "{job}");
    }
    assert!(count > 5, "{count} actions");
}

#[test]
fn only_publishing_may_write() {
    let Some(workflows) = workflows() else { return };
    for workflow in &workflows {
        assert_eq!(workflow["permissions"], serde_json::json!({ "contents": "read" }));
        for job in jobs(workflow).filter(|job| !job["permissions"].is_null()) {
            let commands = job["steps"].as_array().expect("a list").iter();
            let publishes = |step: &Value| {
                step["run"].as_str().is_some_and(|command| command.starts_with(".ci/publish "))
            };
            assert!(commands.filter(|step| publishes(step)).count() == 1, "{job}");
        }
    }
}

#[test]
fn they_are_what_the_schema_of_workflows_demands() {
    let Some(python) = python_with("check_jsonschema", "check-jsonschema") else { return };
    for schema in ["vendor.github-workflows", "custom.github-workflows-require-timeout"] {
        let mut check = Command::new(&python);
        check.args(["-m", "check_jsonschema", "--builtin-schema", schema]).args(files());
        let output = check.output().expect("python");
        assert!(output.status.success(), "{schema}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The oldest compiler is tried by the image of that version.
#[test]
fn the_oldest_rust_is_the_one_that_the_manifest_names() {
    let Some(workflows) = workflows() else { return };
    let oldest = env!("CARGO_PKG_RUST_VERSION");
    let tried = workflows.iter().flat_map(jobs).any(|job| {
        let image = job["container"]["image"].as_str().unwrap_or_default();
        let runs = |step: &Value| step["run"] == ".ci/msrv";
        image.starts_with(&format!("rust:{oldest}-"))
            && job["steps"].as_array().expect("a list").iter().any(runs)
    });
    assert!(tried, "no job of rust:{oldest} runs .ci/msrv");
}
