//! Objects and containers of a stripped C++ program, and trait objects of a Rust program, by class or shape: as many
//! as there are, and no others.

use std::collections::BTreeMap;

use heapattach_tests::{command::Heapattach, fixture::Launch};
use serde_json::Value;

const DONE: i32 = 0;

fn look(pid: i32) -> Value {
    let pid = pid.to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--view", "types", "--json"]).run();
    let text = outcome.expect(DONE).stdout;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Blocks by class, of one certainty.
fn rows(document: &Value, certainty: &str) -> BTreeMap<String, u64> {
    let rows = document["classes"].as_array().expect("classes").iter();
    let rows = rows.filter(|row| row["certainty"] == certainty);
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["blocks"].as_u64().expect("a number"))
    };
    rows.map(row).collect()
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter().map(|(name, blocks)| ((*name).to_owned(), *blocks)).collect()
}

/// Of all bytes in use, those with a name, in percent.
fn named(document: &Value) -> u64 {
    let typed = &document["typed"];
    let bytes = |kind: &str| typed[kind]["bytes"].as_u64().expect("a number");
    let all: u64 = ["certain", "declared", "shape", "place"].into_iter().map(bytes).sum();
    all * 100 / bytes("in_use")
}

#[test]
fn a_stripped_cpp_program_has_its_classes_and_containers_and_no_others() {
    let Some(launch) = Launch::new("zoo.cpp") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let certain = rows(&document, "certain");
    let own = |name: &str| name.starts_with("zoo::") || name.contains("Hidden");
    let own: BTreeMap<String, u64> =
        certain.iter().filter(|(name, _)| own(name)).map(|(n, b)| (n.clone(), *b)).collect();
    let classes = [
        ("zoo::Bird", 5000),
        ("zoo::Duck", 3000),
        ("zoo::Bat", 2000),
        ("zoo::Fish", 150),
        ("zoo::Shark", 100),
        ("zoo::Cage<int, 8>", 80),
        ("zoo::Cage<double, 4>", 70),
        ("zoo::Feeding", 60),
        ("zoo::Show", 50),
        ("zoo::Keeper", 40),
        // Each pool begins with one.
        ("zoo::Ticket", 9005),
        ("zoo::Pool", 5),
        ("zoo::Shop<zoo::Ticket>", 1),
        ("zoo::Registry", 1),
        ("(anonymous namespace)::Hidden", 30),
    ];
    assert_eq!(own, expected(&classes), "{certain:?}");
    let shared = certain.iter().filter(|(name, _)| name.contains("_Sp_counted_ptr_inplace"));
    assert_eq!(shared.map(|(_, blocks)| blocks).sum::<u64>(), 120, "{certain:?}");
    let shapes = [
        ("text with length and room (std::string)", 3000 + 300 + 150 + 40 + 160 + 4000),
        ("array with begin, end and room (std::vector)", 2000 + 40 + 7),
        ("node of a std::list", 3 * 250 + 70),
        ("node of a std::map or std::set", 400 + 150 + 80),
        ("node of a std::unordered_map or _set", 300 + 4000),
        ("table of a std::unordered_map or _set", 60 + 1),
        ("table of a std::deque", 40),
        ("piece of a std::deque", 2 * 40),
    ];
    assert_eq!(rows(&document, "shape"), expected(&shapes), "{}", document["typed"]);
    assert_eq!(rows(&document, "declared"), BTreeMap::new());
    assert!(named(&document) >= 85, "{} %: {}", named(&document), document["typed"]);
    fixture.finish();
}

#[test]
fn trait_objects_of_a_rust_program_have_the_types_that_their_functions_are_of() {
    let Some(launch) = Launch::new("objects.rs") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let shapes = rows(&document, "shape");
    let own = shapes.iter().filter(|(name, _)| name.contains("objects::"));
    let own: BTreeMap<String, u64> = own.map(|(name, blocks)| (name.clone(), *blocks)).collect();
    let objects = [
        ("objects::Circle", 3000),
        ("objects::Polygon", 2000),
        ("objects::Label", 1000),
        ("objects::Group<objects::Circle>", 300),
        ("objects::Shared", 70 + 50),
    ];
    assert_eq!(own, expected(&objects), "{shapes:?}");
    // What the standard library has are a few.
    let containers = [
        ("text with room and length (Rust String)", 2000),
        ("table of a HashMap or HashSet (Rust)", 1),
    ];
    for (name, blocks) in containers {
        let found = shapes.get(name).copied().unwrap_or_default();
        assert!((blocks..blocks + 20).contains(&found), "{name}: {shapes:?}");
    }
    println!("{} %: {}", named(&document), document["typed"]);
    // What else is one is the standard library's: its name says so, or there is none.
    let is_other = |name: &&String| {
        !name.contains("objects::") && !containers.iter().any(|(known, _)| name == known)
    };
    let others = shapes.keys().filter(is_other);
    let others: Vec<_> = others.filter(|name| !name.contains("std::")).collect();
    assert!(others.iter().all(|name| name.starts_with("trait object of")), "{others:?}");
    fixture.finish();
}
