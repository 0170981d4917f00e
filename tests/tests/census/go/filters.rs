//! Questions about some objects of a Go program only: of a type, of a size, of a variable.

use heapattach_tests::{
    command::Heapattach,
    toolchain::{go_by, go_releases},
};
use serde_json::Value;

use super::Program;

const FRAMES: u64 = 1000;
/// Bytes of an object that has a `main.frame`: a size class.
const SIZE: u64 = 2688;

const USAGE: i32 = 2;

/// Objects that all variables and stacks retain together.
fn objects(document: &Value) -> u64 {
    let rows = document["holders"]["holders"].as_array().expect("rows").iter();
    let roots = rows.filter(|row| row["before"].is_null());
    roots.map(|row| row["retained"]["blocks"].as_u64().expect("a number")).sum()
}

#[test]
fn objects_of_a_type_a_size_or_a_variable_are_told_alone() {
    let Some(compiler) = go_releases().pop() else { return };
    let program = Program::start(&go_by(&compiler, "objects.go", &[]), "graph", 1);
    let ask = |more: &[&str]| program.json_of(&[&["--view", "holders"], more].concat());
    let all = objects(&ask(&[]));
    let sizes = format!("{SIZE}..{SIZE}");
    // The slice of them has their name in its own.
    let with_slice = FRAMES + 1;
    for (filter, expected) in [(["--type", "main.frame"], with_slice), (["--size", &sizes], FRAMES)]
    {
        let document = ask(&filter);
        assert_eq!(objects(&document), expected, "{filter:?}: {:#}", document["holders"]);
    }
    let of_variable = ask(&["--held-by", "main.frames"]);
    let rows = of_variable["holders"]["holders"].as_array().expect("rows").iter();
    let names: Vec<&str> =
        rows.filter(|row| row["before"].is_null()).filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, ["main.frames"]);
    let own = objects(&of_variable);
    // Each leads to 200 leaves.
    assert!(own >= FRAMES * 201 && own < all, "{own} of {all}");
    let both = ask(&["--held-by", "main.frames", "--type", "main.frame"]);
    assert_eq!(objects(&both), with_slice, "{:#}", both["holders"]);
}

#[test]
fn a_view_that_tells_all_objects_refuses_a_question_about_some() {
    let own = std::process::id().to_string();
    for (option, value) in [("--size", "1K.."), ("--type", "main.frame"), ("--held-by", "main.x")] {
        let refused = Heapattach::new(["heap", "-p", &own, "--view", "go", option, value]).run();
        let refused = refused.expect(USAGE);
        let told = format!("need --view holders or --tree for {option}");
        assert!(refused.stderr.contains(&told), "{}", refused.stderr);
    }
}
