//! What variables of a Go program retain, beside what the program finds out itself: it leaves each out, and looks what
//! is then no longer reached.

use std::{collections::HashMap, fmt::Write, fs, path::PathBuf};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    compile::fixture,
    seed::seed,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

use super::Program;

/// Graphs, and the variables of each.
const GRAPHS: usize = 100;
const VARIABLES: usize = 4;

/// The fixture with all of its variables.
fn program(folder: &Folder) -> Option<PathBuf> {
    let compiler = go_releases().pop()?;
    let names: Vec<String> =
        (0..GRAPHS * VARIABLES).map(|number| format!("root{number}")).collect();
    let mut text = fs::read_to_string(fixture("graphs.go")).expect("a fixture");
    let _ = writeln!(text, "\nvar {} *node\n\nvar roots = []root{{", names.join(", "));
    for name in &names {
        let _ = writeln!(text, "\t{{\"main.{name}\", &{name}}},");
    }
    text.push_str("}\n");
    let source = folder.0.join("graphs.go");
    fs::write(&source, text).expect("a folder of ours");
    Some(go_by(&compiler, source.to_str().expect("a path of ours"), &[]))
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

#[test]
fn a_variable_retains_what_is_no_longer_reached_without_it_in_a_hundred_random_graphs() {
    let folder = Folder::new("go-retained");
    let Some(program) = program(&folder) else { return };
    let truth_file = folder.0.join("truth");
    let seed = u32::try_from(seed() % 1_000_000).expect("less");
    let program = Program::start(&program, truth_file.to_str().expect("a path of ours"), seed);
    let text = fs::read_to_string(&truth_file).expect("it has told");
    let truth: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, bytes)| (name, bytes.parse().expect("a number")))
        .collect();
    assert_eq!(truth.len(), GRAPHS * VARIABLES);
    let document = program.json_of(&["--view", "holders"]);
    let found = &document["holders"];
    assert!(found["error"].is_null() && found["doubt"].is_null(), "{found:#}");
    assert_eq!(found["reached"], document["go"]["reached"], "{:#}", document["go"]);
    let rows = found["holders"].as_array().expect("rows");
    let is_root = |row: &&Value| row["root"] == "globals";
    let told: HashMap<&str, u64> = rows
        .iter()
        .filter(is_root)
        .map(|row| (row["name"].as_str().expect("a name"), number(&row["retained"]["bytes"])))
        .collect();
    // Less than this part of all is not told.
    let least = number(&found["reached"]["bytes"]) / 2000;
    let mut compared = 0;
    for (name, bytes) in truth {
        match told.get(name) {
            Some(told) => {
                assert_eq!(*told, bytes, "{name}, seed {seed}");
                compared += 1;
            }
            None => assert!(bytes <= least, "{name} retains {bytes}, seed {seed}: {rows:#?}"),
        }
    }
    assert!(compared >= GRAPHS, "{compared}");
    // By type: what lies below a variable is nodes, and what only they lead to.
    let below = |name: &str| rows.iter().any(|row| row["name"] == name && !row["before"].is_null());
    assert!(below("main.node") && below("[]uint8"), "{rows:#?}");
    let text = program.look(&["--tree", "--color", "never"]);
    assert!(text.lines().any(|line| line.contains("main.root") && line.contains("(globals)")));
    let of_nodes = program.json_of(&["--view", "holders", "--type", "main.node"]);
    let sum: u64 = of_nodes["holders"]["holders"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["before"].is_null())
        .map(|row| number(&row["retained"]["bytes"]))
        .sum();
    assert!(sum > 0 && sum.is_multiple_of(64), "{sum}");
}
