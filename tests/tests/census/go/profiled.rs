//! The sampled profile of a stripped program by type, as `heap` tells it.

use std::process::{Command, Stdio};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    json_schema::faults,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

#[test]
fn a_stripped_program_has_its_profile_by_type() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "sites.go", &["-ldflags=-s -w"]);
    let mut target = Command::new(program).stdout(Stdio::null()).spawn().expect("just built");
    let pid = target.id();
    wait_until("it stops itself", PATIENCE, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains("State:\tT"))
    });
    let pid = pid.to_string();
    let look = |more: &[&str]| {
        Heapattach::new(["heap", "-p", &pid].iter().chain(more)).run().expect(0).stdout
    };
    let document: Value = serde_json::from_str(&look(&["--json"])).expect("JSON");
    let text = look(&["--view", "go", "--color", "never"]);
    target.kill().expect("it is ours");
    target.wait().expect("it is ours");
    let schema = Heapattach::new(["schema", "heap"]).run().expect(0).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let rows = document["go"]["profile"].as_array().expect("rows");
    let of = |name: &str| rows.iter().find(|row| row["class"] == name);
    // Every block is sampled: a hundred persons are in the map, and a hundred in the channel.
    let persons = of("main.person").unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(persons["live"]["blocks"], 200, "{persons:#}");
    assert!(of("[]uint8").is_some() && of("map[string]*main.person").is_some(), "{rows:#?}");
    let unknown = of("main.matrix");
    assert!(unknown.is_none(), "a matrix is only ever an element: {unknown:?}");
    assert!(text.contains("type that the sampled stacks allocate"), "{text}");
    assert!(text.lines().any(|line| line.ends_with("  string (bytes)")), "{text}");
}
