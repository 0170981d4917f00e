//! The example of a workflow, run as GitHub would run it.

use std::{
    env, fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
};

use heapattach_tests::{check::pipeline::Pipeline, command::binary, compile::fixture};

/// What the example has a machine do, and what its head tells people to do before.
fn commands() -> (String, Vec<String>) {
    let text = fs::read_to_string(fixture("workflow.yml")).expect("a file of ours");
    let before = text.lines().find_map(|line| line.strip_prefix("#   heapattach "));
    let steps = text.lines().filter_map(|line| line.trim().strip_prefix("- run: "));
    // What is tested is here already.
    let steps = steps.filter(|step| !step.starts_with("cargo install")).map(str::to_owned);
    (format!("heapattach {}", before.expect("how to begin")), steps.collect())
}

fn run(command: &str, place: &Path) -> Output {
    let path = format!("{}:{}", place.display(), env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", command]).current_dir(place).env("PATH", path);
    shell.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", place.join("page.md"));
    shell.env("GITHUB_WORKSPACE", place).output().expect("a shell")
}

#[test]
fn the_example_passes_with_known_leaks_and_fails_with_more() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let place = pipeline.folder();
    symlink(binary(), place.join("heapattach")).expect("a folder of ours");
    fs::copy(fixture("several_leaks.c"), place.join("tests.c")).expect("a folder of ours");
    let (before, steps) = commands();
    let [build, check, suite] = &steps[..] else { panic!("three steps: {steps:?}") };
    let _ = pipeline.file("Makefile", "check:\n\t@sleep 0.1; ./tests\n");
    for (command, code) in [(build, 0), (&before, 0), (check, 0), (suite, 0)] {
        let output = run(command, place);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command}: {talk}");
    }
    assert!(pipeline.read("leaks.xml").contains("failures=\"0\""));
    assert!(pipeline.read("suite.xml").contains("failures=\"0\""));

    let source = pipeline.read("tests.c").replace("\"kf\"", "\"kft\"").replace("tzset_", "cache_");
    let _ = pipeline.file("tests.c", &source);
    assert_eq!(run(build, place).status.code(), Some(0));
    let output = run(check, place);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(23), "{talk}");
    assert!(
        talk.contains(
            "\n::error title=cache_internal (tests.c%3A55)%3A 22 B in 1 block,\
             file=tests.c,line=55::"
        ),
        "{talk}"
    );
    assert!(pipeline.read("leaks.xml").contains("Direct leak at cache_internal"));
    assert_eq!(run(suite, place).status.code(), Some(23));
    let cases = pipeline.read("suite.xml");
    assert!(cases.contains("classname=\"tests\" name=\"Direct leak at cache_internal"), "{cases}");
    assert!(pipeline.read("leaks.sarif").contains("\"uri\": \"tests.c\""));
    assert!(pipeline.read("page.md").contains("| direct | 22 | 1 | `cache_internal tests.c:55` |"));
}
