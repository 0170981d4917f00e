//! What of the blocks in use may be waste, beside what a program planted.

use heapattach_tests::{command::Heapattach, fixture::Launch, json_schema, page::Word};
use serde_json::Value;

const DONE: i32 = 0;
/// What the C library itself has in blocks: buffers, tables of the loader.
const OTHERS: u64 = 20_000;

fn run(pid: i32, more: &[&str]) -> String {
    let pid = pid.to_string();
    let arguments = ["heap", "-p", &pid].into_iter().chain(more.iter().copied());
    Heapattach::new(arguments).run().expect(DONE).stdout
}

fn document(text: &str) -> Value {
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let document = parsed(text);
    assert_eq!(json_schema::faults(&parsed(&schema), &document), [""; 0]);
    document
}

#[test]
fn each_planted_byte_of_waste_is_told_once_and_by_its_kind() {
    let Some(launch) = Launch::new("waste.cpp") else { return };
    let fixture = launch.start();
    let document = document(&run(fixture.pid(), &["--view", "waste", "--json"]));
    let waste = &document["waste"];
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut all = 0;
    for (kind, word) in [
        ("zeroes", Word::Malloc),
        ("copies", Word::Calloc),
        ("text_copies", Word::Realloc),
        ("tails", Word::Free),
    ] {
        let blocks = fixture.page().get(word);
        let bytes = fixture.page().bytes(word);
        let found = (number(&waste[kind]["blocks"]), number(&waste[kind]["bytes"]));
        let fits = found.0.checked_sub(blocks).is_some_and(|more| more < 50)
            && found.1.checked_sub(bytes).is_some_and(|more| more < OTHERS);
        assert!(fits, "{kind}: {blocks} blocks, {bytes} B planted; {waste}");
        all += bytes;
    }
    assert!(all > 3 << 20, "{all}");
    assert_eq!((&waste["one_in"], &waste["left_out"]["blocks"]), (&1.into(), &0.into()), "{waste}");
    // Each group that was planted is a row, with its number of different contents.
    let row = |kind: &str, size: u64| {
        let rows = waste["rows"].as_array().expect("rows").iter();
        let found = rows.clone().find(|row| row["kind"] == kind && row["size"] == size);
        found.unwrap_or_else(|| panic!("{kind} of {size}: {waste}")).clone()
    };
    for of in 0..7 {
        let row = row("copies", 24 + 16 * of);
        assert_eq!(row["contents"].as_u64().map(|contents| contents < 5), Some(true), "{row}");
        assert!(number(&row["waste"]["blocks"]) >= 999, "{row}");
    }
    assert_eq!(row("text_copies", 72)["contents"], 1);
    fixture.finish();
}

#[test]
fn much_waste_is_named_on_the_first_screen_and_little_is_not() {
    let Some(launch) = Launch::new("waste.cpp") else { return };
    let fixture = launch.start();
    let screen = run(fixture.pid(), &[]);
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("WASTE") && words.contains("ends of blocks that are zeroes"),
        "{screen}"
    );
    let view = run(fixture.pid(), &["--view", "waste"]);
    assert!(view.contains("copies of one text"), "{view}");
    fixture.finish();
    let Some(launch) = Launch::new("holders.cpp") else { return };
    let fixture = launch.arg("map").start();
    let screen = run(fixture.pid(), &[]);
    assert!(!screen.contains("copies of texts"), "{screen}");
    fixture.finish();
}
