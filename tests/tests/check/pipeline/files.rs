//! `heapattach check` in a pipeline: the files that machines read.

use std::{
    fs,
    os::unix::fs::{lchown, symlink},
    process::Command,
};

use heapattach_tests::{check::pipeline::Pipeline, compile::is_there, skip::skip};
use serde_json::Value;

/// Prints what a reader of JUnit's XML finds in it.
const READ_JUNIT: &str = "
import sys, xml.etree.ElementTree as tree
suites = tree.parse(sys.argv[1]).getroot()
print(suites.tag, suites.get('tests'), suites.get('failures'))
for suite in suites:
    for case in suite.iter('testcase'):
        failure = case.find('failure')
        name = case.get('name').split(' [')[0]
        stack = (failure.text or '').split(chr(10))[0].split('/')[-1] if failure is not None else ''
        print(case.get('classname'), '|', name, '|', '' if failure is None else failure.get('message'), '|', stack)
";

#[test]
fn junit_can_be_read_and_has_a_case_for_each_leak() {
    if !is_there("python3") {
        return skip("no python3 here", "apt-get install python3");
    }
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let read = |words: &[&str], options: &[&str]| {
        let file = pipeline.path("leaks.xml");
        let _ = pipeline.check(&[&["--junit", &file], options].concat(), words);
        let output = Command::new("python3").args(["-c", READ_JUNIT, &file]).output();
        let output = output.expect("it is there");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let leaks = "\
testsuites 3 3
several_leaks | Direct leak at make_holder | make_holder (several_leaks.c:33): 104 B in 2 blocks | \
                 Direct leak of 64 byte(s) in 1 object(s), which alone lead to 40 byte(s) in 1 object(s)
several_leaks | Direct leak at fresh | fresh (several_leaks.c:50): 33 B in 1 block | \
                 Direct leak of 33 byte(s) in 1 object(s)
several_leaks | --max-leak | --max-leak allows 0, found 137 |\x20
";
    assert_eq!(read(&["kf"], &[]), leaks);
    assert_eq!(read(&["h"], &[]), "testsuites 1 0\nseveral_leaks | no leaks |  | \n");
    let allowed = read(&["f"], &["--max-leak", "33"]);
    assert_eq!(allowed, "testsuites 1 0\nseveral_leaks | Direct leak at fresh |  | \n");
}

#[test]
fn sarif_has_what_the_standard_requires() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let file = pipeline.path("leaks.sarif");
    let _ = pipeline.check(&["--sarif", &file], &["kf"]);
    let document: Value = serde_json::from_str(&pipeline.read("leaks.sarif")).expect("JSON");
    assert_eq!(document["version"], "2.1.0");
    assert!(document["$schema"].as_str().is_some_and(|schema| schema.contains("sarif-2.1.0")));
    let run = &document["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "heapattach");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), 2);
    for (result, line) in results.iter().zip([33, 50]) {
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]), "{result}");
        assert_eq!(result["level"], "error");
        let place = &result["locations"][0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().expect("a place");
        assert!(uri.ends_with("several_leaks.c"), "{uri}");
        assert_eq!(place["region"]["startLine"], line);
        let key = result["partialFingerprints"]["heapattachStack/v1"].as_str();
        assert_eq!(key.map(str::len), Some(16), "{result}");
        let calls = &result["codeFlows"][0]["threadFlows"][0]["locations"];
        assert!(calls.as_array().is_some_and(|calls| calls.len() >= 2), "{result}");
    }
}

#[test]
fn github_is_told_where_in_the_sources_and_gets_a_page() {
    let Some(mut pipeline) = Pipeline::build(&[]) else { return };
    let sources = heapattach_tests::compile::folder().join("check");
    pipeline.set("GITHUB_WORKSPACE", &sources.display().to_string());
    pipeline.set("GITHUB_STEP_SUMMARY", &pipeline.path("page.md"));
    let _ = pipeline.file("page.md", "before\n");
    let lines = |talk: &str| {
        let told = talk.lines().filter(|line| line.starts_with("::"));
        told.map(|line| line.split("%0A").take(2).collect::<Vec<_>>().join("%0A"))
            .collect::<Vec<_>>()
    };
    let expected = [
        "::error title=make_holder (several_leaks.c%3A33)%3A 104 B in 2 blocks,\
         file=several_leaks.c,line=33::Direct leak of 64 byte(s) in 1 object(s), which alone lead to 40 byte(s) in 1 object(s)%0Amake_holder \
         several_leaks.c:33",
        "::error title=fresh (several_leaks.c%3A50)%3A 33 B in 1 block,\
         file=several_leaks.c,line=50::Direct leak of 33 byte(s) in 1 object(s)%0Afresh several_leaks.c:50",
    ];
    assert_eq!(lines(&pipeline.check(&["--github", "on"], &["kf"]).stderr), expected);
    assert_eq!(lines(&pipeline.check(&[], &["kf"]).stderr), [""; 0], "no workflow of GitHub");
    assert!(pipeline.read("page.md").starts_with("before\n### Leaks of `several_leaks`\n"));
    let row = "| direct | 104 | 2 | `make_holder several_leaks.c:33` |";
    assert!(pipeline.read("page.md").contains(row), "{}", pipeline.read("page.md"));
    pipeline.set("GITHUB_ACTIONS", "true");
    assert_eq!(lines(&pipeline.check(&[], &["kf"]).stderr), expected);
    assert_eq!(lines(&pipeline.check(&["--github", "off"], &["kf"]).stderr), [""; 0]);
    assert_eq!(pipeline.read("page.md").matches("### Leaks").count(), 2);
}

#[test]
fn json_has_what_was_seen_and_what_is_made_of_it() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let file = pipeline.path("leaks.json");
    let rules = pipeline.file("a.supp", "leak:fresh\nleak:never\n");
    let options = ["--json", "--report", &file, "--suppressions", &rules, "--max-allocs", "2"];
    let outcome = pipeline.check(&options, &["kf"]);
    assert_eq!(outcome.status.code(), Some(23), "{}", outcome.stderr);
    let document: Value = serde_json::from_str(&pipeline.read("leaks.json")).expect("JSON");
    assert_eq!(document["status"], 23);
    assert_eq!(document["check"]["sums"]["direct"]["bytes"], 64);
    let found = &document["findings"];
    assert_eq!(found["leaks"][0]["held"]["bytes"], 40);
    assert_eq!(found["used"][0]["rule"], "leak:fresh");
    assert_eq!(found["unused"][0]["rule"], "leak:never");
    assert_eq!(found["suppressed"]["bytes"], 33);
    assert_eq!(found["measured"]["allocations"], 3);
    let limits = found["breaches"].as_array().expect("a list");
    let limits: Vec<&Value> = limits.iter().map(|breach| &breach["limit"]).collect();
    assert_eq!(limits, ["--max-leak", "--max-allocs"]);
}

#[test]
fn a_file_that_cannot_be_written_is_a_failure() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    for option in ["--junit", "--sarif", "--report"] {
        let outcome = pipeline.check(&[option, "/nowhere/file"], &["h"]);
        assert_eq!(outcome.status.code(), Some(125), "{option}: {}", outcome.stderr);
        let said = "/nowhere/file cannot be written: No such file";
        assert!(outcome.stderr.contains(said), "{option}: {}", outcome.stderr);
    }
    let own = pipeline.check(&["--junit", "/nowhere/file"], &["h", "7"]);
    assert_eq!(own.status.code(), Some(7), "{}", own.stderr);
}

#[test]
fn a_link_of_somebody_else_is_not_written_through() {
    let Some(pipeline) = Pipeline::build(&[]) else { return };
    let (link, to) = (pipeline.folder().join("leaks.xml"), pipeline.folder().join("precious"));
    fs::write(&to, "precious").expect("a folder of ours");
    symlink(&to, &link).expect("a folder of ours");
    if lchown(&link, Some(65534), None).is_err() {
        return skip("only root can give a link away", "run the tests as root");
    }
    let outcome = pipeline.check(&["--junit", &pipeline.path("leaks.xml")], &["h"]);
    assert_eq!(outcome.status.code(), Some(125), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("a link of user 65534"), "{}", outcome.stderr);
    assert_eq!(fs::read_to_string(&to).expect("it is there"), "precious");
}
