//! Blocks of a program in plain C by its debug data, beside what each of them truly is.

use std::{collections::BTreeMap, fs::File, os::unix::fs::FileExt};

use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    fixture::{Fixture, Launch},
    json_schema,
    page::Word,
};
use serde_json::Value;

const DONE: i32 = 0;

/// True types, in the order of the fixture's numbers.
const TYPES: [&str; 14] = [
    "entry",
    "value",
    "text",
    "table",
    "list",
    "list_node",
    "level_node",
    "client",
    "buffer",
    "reply",
    "derived",
    "shared",
    "stale",
    "numbers",
];

/// By true type: blocks and bytes.
fn truth(fixture: &Fixture) -> BTreeMap<&'static str, (u64, u64)> {
    let page = fixture.page();
    let (at, many) = (page.get(Word::Seen), page.get(Word::Answer));
    let memory = File::open(format!("/proc/{}/mem", fixture.pid())).expect("its memory");
    let mut bytes = vec![0; usize::try_from(many).expect("a number") * 24];
    memory.read_exact_at(&mut bytes, at).expect("its table");
    let mut all = BTreeMap::new();
    for row in bytes.chunks_exact(24) {
        let word = |index: usize| {
            u64::from_le_bytes(row[index * 8..index * 8 + 8].try_into().expect("a word"))
        };
        let kind = TYPES[usize::try_from(word(2)).expect("a type")];
        let sum: &mut (u64, u64) = all.entry(kind).or_default();
        *sum = (sum.0 + 1, sum.1 + word(1));
    }
    all
}

fn look(pid: i32) -> Value {
    let pid = pid.to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--view", "types", "--json"]).run();
    let text = outcome.expect(DONE).stdout;
    let parsed = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    let document = parsed(&text);
    assert_eq!(json_schema::faults(&parsed(&schema), &document), [""; 0]);
    document
}

fn rows(document: &Value) -> BTreeMap<String, u64> {
    let rows = document["classes"].as_array().expect("classes").iter();
    let row = |row: &Value| {
        assert_eq!(row["certainty"], "declared", "{row}");
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["blocks"].as_u64().expect("a number"))
    };
    rows.map(row).collect()
}

#[test]
fn each_declared_class_has_its_blocks_and_no_others() {
    let Some(launch) = Launch::new("store.c") else { return };
    let fixture = launch.start();
    let truth = truth(&fixture);
    let document = look(fixture.pid());
    let typed = &document["typed"];
    assert_eq!((&typed["error"], &typed["missing"]), (&Value::Null, &Value::Null), "{typed}");
    let rows = rows(&document);
    let blocks = |kind: &str| truth[kind].0;
    for kind in ["entry", "list", "list_node", "level_node", "client", "reply"] {
        assert_eq!(rows.get(kind), Some(&blocks(kind)), "{kind}: {rows:?}");
    }
    assert_eq!((rows.get("table"), rows.get("entry *[]")), (Some(&1), Some(&1)), "{rows:?}");
    assert_eq!(rows.get("unsigned int[]"), Some(&1), "{rows:?}");
    // Texts whose holders say that they are texts; the others are behind `void *`.
    let texts = rows.get("char[] behind 3 bytes").copied().unwrap_or(0);
    assert_eq!(texts, blocks("client") + blocks("level_node"), "{rows:?}");
    assert_eq!(rows.get("char[]"), Some(&blocks("buffer")), "{rows:?}");
    // What pointers disagree on, what a base leads to, what a stale pointer leads to, have none.
    let known = [
        "entry",
        "list",
        "list_node",
        "level_node",
        "client",
        "reply",
        "table",
        "entry *[]",
        "unsigned int[]",
        "char[] behind 3 bytes",
        "char[]",
    ];
    let others: Vec<_> = rows.keys().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(others.is_empty(), "{others:?}");
    assert_eq!(typed["disputed"], blocks("shared"), "{typed}");
    fixture.finish();
}

#[test]
fn what_has_no_type_has_the_place_of_what_holds_it() {
    let Some(launch) = Launch::new("store.c") else { return };
    let fixture = launch.start();
    let truth = truth(&fixture);
    let document = look(fixture.pid());
    let typed = &document["typed"];
    let places = typed["places"].as_array().expect("places");
    let of = |name: &str| {
        let found = places.iter().find(|place| place["name"] == name);
        found.map_or(0, |place| place["amount"]["blocks"].as_u64().expect("a number"))
    };
    let entries = truth["entry"].0;
    for place in ["in entry+0x0", "in entry+0x8", "in entry+0x8 > +0x8"] {
        assert_eq!(of(place), entries, "{place}: {places:?}");
    }
    let bytes = |value: &Value| value["bytes"].as_u64().expect("a number");
    let named = ["certain", "declared", "shape", "place"].map(|kind| bytes(&typed[kind]));
    let (named, all) = (named.iter().sum::<u64>(), bytes(&typed["in_use"]));
    assert!(named * 10 >= all * 9, "{named} of {all}: {typed}");
    let pid = fixture.pid().to_string();
    let text = Heapattach::new(["heap", "-p", &pid, "--view", "types"]).run().expect(DONE).stdout;
    assert!(text.contains("declared") && text.contains("in entry+0x8"), "{text}");
    fixture.finish();
}

#[test]
fn a_stripped_program_in_c_has_no_types() {
    let Some(program) = Source::new("store.c").flag("-s").build() else { return };
    let fixture = Launch::program(&program).start();
    let document = look(fixture.pid());
    assert_eq!(document["classes"], Value::Array(Vec::new()), "{document}");
    assert_eq!(document["typed"]["declared"]["blocks"], 0, "{document}");
    fixture.finish();
}

/// By class, those of the fixture's own and of the numbers in it: 200 connections, of which each second one leads to another.
const OF_RUST: [(&str, u64); 10] = [
    ("core::option::Option<alloc::boxed::Box<typed::All, alloc::alloc::Global>>", 1),
    ("typed::All", 1),
    ("typed::Conn[]", 1),
    ("typed::Conn", 100),
    ("typed::Peer", 300 + 100),
    ("u64[]", 300),
    ("u32[]", 300),
    ("u16[]", 50 + 50),
    ("alloc::rc::RcInner<typed::Item>", 300),
    ("alloc::sync::ArcInner<typed::Item>", 60),
];

#[test]
fn what_boxes_vecs_and_counted_pointers_of_rust_lead_to_has_its_type() {
    let Some(launch) = Launch::new("typed.rs") else { return };
    let fixture = launch.start();
    let document = look(fixture.pid());
    let rows = document["classes"].as_array().expect("classes").iter();
    let declared = rows.filter(|row| row["certainty"] == "declared").map(|row| {
        let name = row["name"].as_str().expect("a name");
        (name, row["blocks"].as_u64().expect("a number"))
    });
    let all: BTreeMap<&str, u64> = declared.collect();
    println!("{all:#?} {}", document["typed"]);
    for (name, blocks) in OF_RUST {
        assert_eq!(all.get(name), Some(&blocks), "{name}: {all:#?}");
    }
    assert_eq!(document["typed"]["disputed"], 0, "{all:#?}");
    fixture.finish();
}
