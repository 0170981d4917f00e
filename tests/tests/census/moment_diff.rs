//! What became different between moments of a process: what was planted between them, and nothing else.

use std::path::{Path, PathBuf};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::{Source, folder as fixtures},
    fixture::{Fixture, Launch},
    json_schema::faults,
};
use serde_json::Value;

const DONE: i32 = 0;
const USAGE: i32 = 2;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

fn taken(fixture: &Fixture, folder: &Folder, name: &str) -> PathBuf {
    let path = folder.0.join(name);
    let pid = fixture.pid().to_string();
    let words = ["heap", "-p", &pid, "-o", text(&path), "--unreachable", "--view", "holders"];
    Heapattach::new(words).run().expect(DONE);
    path
}

fn diff(paths: &[&Path], more: &[&str]) -> Outcome {
    let paths = paths.iter().map(|path| text(path));
    Heapattach::new(["diff"].into_iter().chain(paths).chain(more.iter().copied())).run()
}

fn json(paths: &[&Path]) -> Value {
    let told = diff(paths, &["--json"]).expect(DONE).stdout;
    let document = serde_json::from_str(&told).unwrap_or_else(|error| panic!("{error}: {told}"));
    let schema = Heapattach::new(["schema", "heap-diff"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0], "{document}");
    document
}

/// How many blocks of all sizes came.
fn blocks(document: &Value) -> i64 {
    let rows = document["sizes"]["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["change"]["blocks"].as_i64().expect("a number")).sum()
}

#[test]
fn blocks_that_came_between_two_moments_are_told() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("1").start();
    let folder = Folder::new("moment-diff");
    let first = taken(&fixture, &folder, "a.heapattach-moment");
    fixture.step(1, 1000);
    let second = taken(&fixture, &folder, "b.heapattach-moment");
    fixture.step(1, 3000);
    let third = taken(&fixture, &folder, "c.heapattach-moment");
    fixture.finish();
    let document = json(&[&first, &second]);
    assert_eq!(blocks(&document), 1000, "{document}");
    assert_eq!(document["notes"], Value::Array(Vec::new()));
    assert!(document["lasted_ms"].as_u64().is_some_and(|ms| ms > 0), "{document}");
    assert_eq!(blocks(&json(&[&second, &third])), 3000);
    assert_eq!(blocks(&json(&[&second, &first])), -1000, "backwards, and a note says so");
    let three = json(&[&first, &second, &third]);
    assert_eq!(blocks(&three), 4000);
    assert_eq!(three["sizes"]["rows"][0]["growth"], "every_step", "{three}");
    let same = json(&[&first, &first]);
    assert_eq!(same["total"]["change"]["bytes"], 0);
    assert_eq!(same["sizes"]["rows"], Value::Array(Vec::new()));
    let told = diff(&[&first, &second], &["--width", "200"]).expect(DONE).stdout;
    let mut lines = told.lines();
    let line = lines.next().expect("a line");
    assert!(line.starts_with("VERDICT   Resident memory ") && line.contains(" in "), "{told}");
    assert!(lines.next().is_some_and(|line| line.contains("Grew most: size ")), "{told}");
    let told = diff(&[&second, &first], &[]).expect(DONE).stdout;
    assert!(told.contains("NOTE") && told.contains("was taken after"), "{told}");
}

#[test]
fn classes_and_roots_that_grew_are_named_and_other_processes_are_noted() {
    let Some(program) = Source::new("holders.cpp").build() else { return };
    let folder = Folder::new("moment-diff-classes");
    let small = Launch::program(&program).arg("vector").start();
    let large = Launch::program(&program).arg("map").start();
    let first = taken(&small, &folder, "a.heapattach-moment");
    let second = taken(&large, &folder, "b.heapattach-moment");
    small.finish();
    large.finish();
    let document = json(&[&first, &second]);
    let row = &document["types"]["rows"][0];
    assert_eq!((&row["name"], &row["change"]["blocks"]), (&"Session (C++)".into(), &20_000.into()));
    let roots = document["holders"]["rows"].as_array().expect("rows");
    let of = |name: &str| roots.iter().find(|row| row["name"] == name).expect(name);
    assert_eq!(of("sessions (globals)")["change"]["blocks"], 40_000, "{document}");
    assert_eq!(of("frames_of_video (globals)")["blocks"], serde_json::json!([1, 0]));
    let notes = document["notes"].as_array().expect("notes");
    assert!(notes[0].as_str().is_some_and(|note| note.contains("of two processes")), "{notes:?}");
}

#[test]
fn a_moment_and_a_recording_are_not_compared() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let fixture = Launch::program(&program).arg("1").start();
    let folder = Folder::new("moment-diff-refused");
    let moment = taken(&fixture, &folder, "a.heapattach-moment");
    fixture.finish();
    let recording = fixtures().join("golden/before.heapattach");
    let refused = diff(&[&moment, &recording], &[]).expect(USAGE).stderr;
    assert!(refused.contains("a moment and a recording cannot be compared"), "{refused}");
    let refused = diff(&[&moment, &moment], &["--format", "html"]).expect(USAGE).stderr;
    assert!(refused.contains("leave out --format"), "{refused}");
    let refused = diff(&[&moment, &moment], &["--metric", "peak"]).expect(USAGE).stderr;
    assert!(refused.contains("--metric is of recordings"), "{refused}");
}
