//! The sampled profile of a stripped program by type, as `heap` tells it.

use std::process::{Command, Stdio};

use heapattach_test_folder::Folder;
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

#[test]
fn a_session_tells_the_types_that_its_stacks_allocate_as_text_as_data_and_on_the_page() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = go_by(&compiler, "sites.go", &["-ldflags=-s -w"]);
    let mut target = Command::new(program).stdout(Stdio::null()).spawn().expect("just built");
    let pid = target.id();
    wait_until("it stops itself", PATIENCE, || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains("State:\tT"))
    });
    let (pid, folder) = (pid.to_string(), Folder::new("go-types"));
    let [recording, page] =
        ["a.heapattach", "a.html"].map(|name| folder.0.join(name).display().to_string());
    let words = ["-p", &pid, "--duration", "0", "--json", "-o", &recording];
    let json = Heapattach::new(words).run().expect(0).stdout;
    target.kill().expect("it is ours");
    target.wait().expect("it is ours");
    let document: Value = serde_json::from_str(&json).expect("JSON");
    let schema = Heapattach::new(["schema", "report"]).run().expect(0).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let rows = document["summary"]["types"].as_array().expect("types");
    let persons = rows.iter().find(|row| row["class"] == "main.person");
    assert_eq!(persons.expect("persons")["live_blocks"], 200, "{rows:#?}");
    // All that the profile has is of one of the types, or of none that the code states.
    let sum = |what: &str| rows.iter().filter_map(|row| row[what].as_u64()).sum::<u64>();
    let live = document["heap"]["live"]["bytes"]["value"].as_f64().expect("a number");
    assert!((sum("live_bytes") as f64 - live).abs() <= rows.len() as f64, "{live}: {rows:#?}");
    let report = |more: &[&str]| {
        let words = ["report", &recording].into_iter().chain(more.iter().copied());
        Heapattach::new(words).run().expect(0).stdout
    };
    let text = report(&["--color", "never"]);
    assert!(text.contains("type, as the code of the sampled stacks states it"), "{text}");
    // The largest ones are there.
    let first = rows[0]["class"].as_str().unwrap_or("?");
    assert!(text.lines().any(|line| line.ends_with(&format!("  {first}"))), "{first}: {text}");
    let ledger: Value = serde_json::from_str(&report(&["--format", "json"])).expect("JSON");
    assert_eq!(&ledger["about"]["types"], &document["summary"]["types"]);
    report(&["--format", "html", "-o", &page]);
    let page = std::fs::read_to_string(&page).expect("a page");
    assert!(page.contains("main.person: ") && page.contains("Types that the code allocates"));
}
