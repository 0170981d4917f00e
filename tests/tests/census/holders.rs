//! What retains most is named on the first screen, whichever form it has; and who holds a class.

use heapattach_tests::{command::Heapattach, compile::Source, fixture::Launch};
use serde_json::Value;

const DONE: i32 = 0;

fn run(pid: i32, more: &[&str]) -> String {
    let pid = pid.to_string();
    let arguments = ["heap", "-p", &pid].into_iter().chain(more.iter().copied());
    Heapattach::new(arguments).run().expect(DONE).stdout
}

/// Words of a screen, however its lines are broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn each_form_of_a_suspect_is_named_on_the_first_screen() {
    let Some(program) = Source::new("holders.cpp").build() else { return };
    let forms: [(&str, &[&str]); 6] = [
        ("vector", &["SUSPECT frames_of_video (globals) retains 16.0 MiB in 1 block", "one block"]),
        ("map", &["SUSPECT sessions (globals)", "mostly Session: ", "path: sessions > blocks of"]),
        ("list", &["SUSPECT history", "mostly blocks of 24 bytes", "in 200 000 blocks"]),
        ("cache", &["SUSPECT names (globals)", "mostly blocks of 104 bytes: 4.0 MiB in 40 000"]),
        ("frame", &["SUSPECT work(char const*)", "mostly Session: "]),
        (
            "lost",
            &["blocks are leaked: no pointer leads to them", "1 block, Tree of 136 B, leading to"],
        ),
    ];
    for (form, expected) in forms {
        let fixture = Launch::program(&program).arg(form).start();
        let screen = words(&run(fixture.pid(), &[]));
        for part in expected {
            assert!(screen.contains(part), "{form}: {part:?} in {screen}");
        }
        // Only what is leaked is called so.
        assert_eq!(screen.contains("are leaked"), form == "lost", "{form}: {screen}");
        fixture.finish();
    }
}

#[test]
fn holders_are_a_tree_that_filters_choose_from_and_paths_lead_to_a_class() {
    let Some(program) = Source::new("holders.cpp").build() else { return };
    let fixture = Launch::program(&program).arg("map").start();
    let schema: Value =
        serde_json::from_str(&Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout)
            .expect("a schema");
    let look = |more: &[&str]| -> Value {
        let more: Vec<&str> = ["--json"].into_iter().chain(more.iter().copied()).collect();
        let text = run(fixture.pid(), &more);
        let document =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(
            heapattach_tests::json_schema::faults(&schema, &document),
            [""; 0],
            "{document}"
        );
        document
    };
    let document = look(&["--view", "holders"]);
    let found = &document["holders"];
    assert_eq!((&found["error"], &found["doubt"]), (&Value::Null, &Value::Null), "{found}");
    assert_eq!(found["blocks"], found["reached"], "everything is reached: {found}");
    let rows = found["holders"].as_array().expect("rows");
    let named = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
    assert_eq!(named("sessions")["retained"]["blocks"], 40_000, "{found}");
    assert_eq!(named("sessions")["root"], "globals");
    assert_eq!(named("Session")["own"]["blocks"], 20_000, "{found}");

    let document = look(&["--view", "holders", "--type", "Session", "--held-by", "sessions"]);
    let rows = document["holders"]["holders"].as_array().expect("rows");
    assert_eq!(rows[0]["retained"]["blocks"], 20_000, "{document}");
    let document = look(&["--view", "holders", "--type", "Session", "--size", "..100"]);
    assert_eq!(document["holders"]["holders"], Value::Array(Vec::new()), "{document}");

    let document = look(&["--who-holds", "Session"]);
    let paths = document["holders"]["paths"].as_array().expect("paths");
    let [path] = &paths[..] else { panic!("one path: {document}") };
    let names: Vec<&str> = path["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .filter_map(|s| s["name"].as_str())
        .collect();
    assert_eq!(names, ["sessions", "node of a std::map or std::set", "Session"]);
    // The key and the value lie behind the head of a node of the tree.
    assert_eq!(path["steps"][1]["offset"], 0x28, "{path}");
    let text = words(&run(fixture.pid(), &["--who-holds", "Nothing"]));
    assert!(text.contains("NOT FOUND no block in use"), "{text}");
    fixture.finish();
}
