//! Objects of a stripped C++ program by their class, and what it leaked before the look.

use std::collections::BTreeMap;

use heapattach_tests::{command::Heapattach, fixture::Launch};
use serde_json::Value;

const DONE: i32 = 0;

fn look(pid: i32) -> Value {
    let pid = pid.to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--json", "--unreachable"]).run();
    let outcome = outcome.expect(DONE);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

#[test]
fn every_object_of_a_stripped_program_has_its_class_and_no_other() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let rows = document["classes"].as_array().expect("classes").iter();
    let rows = rows.map(|row| {
        let name = row["name"].as_str().expect("a name");
        (name.to_owned(), row["blocks"].as_u64().expect("a number"))
    });
    let own: BTreeMap<String, u64> =
        rows.filter(|(name, _)| name.starts_with("zoo::") || name == "Chain").collect();
    let expected = [
        ("Chain", 40),
        ("zoo::Animal", 60),
        ("zoo::Being", 50),
        ("zoo::Bird", 1200),
        ("zoo::Cage<int, 8>", 20),
        ("zoo::Duck", 300),
    ];
    let expected: BTreeMap<String, u64> =
        expected.into_iter().map(|(name, blocks)| (name.to_owned(), blocks)).collect();
    assert_eq!(own, expected, "{}", document["classes"]);
    fixture.finish();
}

#[test]
fn blocks_that_were_leaked_before_the_look_are_found_and_no_others() {
    let Some(launch) = Launch::new("classes.cpp") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let found = &document["unreachable"];
    assert_eq!(found["error"], Value::Null, "{found}");
    let blocks = |kind: &str| found[kind]["blocks"].as_u64().expect("a number");
    let groups = found["groups"].as_array().expect("groups");
    let of = |class: &str| -> u64 {
        let rows = groups.iter().filter(|group| group["class"] == class);
        rows.map(|group| group["own"]["blocks"].as_u64().expect("a number")).sum()
    };
    // A word that is left on a stack can keep one of each.
    assert!((495..=500).contains(&of("zoo::Bird")), "{found}");
    assert!((39..=40).contains(&of("Chain")), "{found}");
    assert!((39..=40).contains(&blocks("indirect")), "{found}");
    let direct = blocks("direct") + blocks("possible");
    assert_eq!(direct, of("zoo::Bird") + of("Chain"), "{found}");
    let text = Heapattach::new(["heap", &fixture.pid().to_string(), "--view", "unreachable"]).run();
    assert!(text.expect(DONE).stdout.contains("zoo::Bird"));
    fixture.finish();
}
