//! What is told only if the user asks for it: one arena, pages that were never written, contents.

use heapattach_tests::{
    command::Heapattach,
    fixture::{Fixture, Launch},
    json_schema,
    page::Word,
};
use serde_json::Value;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn look(fixture: &Fixture, options: &[&str]) -> Value {
    look_ending(fixture, options, DONE)
}

fn look_ending(fixture: &Fixture, options: &[&str], code: i32) -> Value {
    let pid = fixture.pid().to_string();
    let arguments = [&["heap", "-p", &pid, "--json"], options].concat();
    let told = Heapattach::new(arguments).run().expect(code).stdout;
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    assert_eq!(json_schema::faults(&parsed(&schema), &parsed(&told)), [""; 0]);
    parsed(&told)
}

fn row(rows: &Value, size: u64) -> &Value {
    let found = rows.as_array().expect("rows").iter().find(|row| row["size"] == size);
    found.unwrap_or_else(|| panic!("no row of {size}: {rows}"))
}

#[test]
fn an_arena_is_told_by_itself() {
    let Some(launch) = Launch::new("asked.c") else { return };
    let mut fixture = launch.start();
    let document = look(&fixture, &["--arena", "1"]);
    let found = &document["asked"]["arena"]["found"];
    assert_eq!(found.as_array().map(Vec::len), Some(1), "{found}");
    assert_eq!((&found[0]["allocator"], &found[0]["arena"]), (&"glibc".into(), &"arena 1".into()));
    assert_eq!(row(&found[0]["sizes"], 104)["used"], 500);
    assert!(!found[0]["sizes"].to_string().contains("\"size\":200,"), "{found}");
    // 499 have the contents of another.
    assert_eq!(found[0]["waste"]["copies"]["blocks"], 499, "{found}");
    let main = look(&fixture, &["--arena", "main"]);
    assert!(row(&main["asked"]["arena"]["found"][0]["sizes"], 200)["used"].as_u64() >= Some(30));
    let none = look_ending(&fixture, &["--arena", "77"], FAILED);
    let error = none["asked"]["arena"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("need one of: glibc: main, glibc: arena 1"), "{error}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn pages_that_were_never_written_are_told_by_size() {
    let Some(launch) = Launch::new("asked.c") else { return };
    let mut fixture = launch.start();
    let (untouched, usable) = (fixture.page().get(Word::Malloc), fixture.page().get(Word::Calloc));
    let document = look(&fixture, &["--not-written"]);
    let found = &document["not_written"];
    let large = row(&found["rows"], usable / 20);
    assert_eq!(large["sum"]["blocks"], 20, "{found}");
    assert_eq!(
        (&large["sum"]["not_written"], &large["sum"]["bytes"]),
        (&untouched.into(), &usable.into())
    );
    let few = look(&fixture, &["--not-written", "--size", "..4K"]);
    assert!(few["not_written"]["sum"]["not_written"].as_u64() < Some(1 << 16), "{few}");
    fixture.assert_well();
    fixture.finish();
}

#[test]
fn contents_are_told_only_if_asked_for_and_never_kept() {
    let Some(launch) = Launch::new("asked.c") else { return };
    let mut fixture = launch.start();
    let pid = fixture.pid().to_string();
    let told = |options: &[&str]| {
        let all = [&["heap", "-p", &pid], options].concat();
        Heapattach::new(all).run().expect(DONE).stdout
    };
    for view in ["summary", "sizes", "types", "unreachable", "holders", "waste"] {
        assert!(!told(&["--view", view]).contains("token="), "{view}");
    }
    let text = told(&["--view", "sizes", "--show-contents", "8"]);
    assert!(text.contains("token=10") && text.contains("do not pass them on"), "{text}");
    // No more than that.
    assert!(!text.contains("token=100"), "{text}");
    let kept = ["heap", "-p", &pid, "--show-contents", "8", "-o", "/tmp/x.heapattach-moment"];
    let refused = Heapattach::new(kept).run().expect(USAGE).stderr;
    assert!(refused.contains("files of moments have no contents"), "{refused}");
    fixture.assert_well();
    fixture.finish();
}
