//! Which blocks keep memory that is mostly free: beside what a program kept, and what is left in memory when its
//! allocator gave back all that it could.

use heapattach_tests::{command::Heapattach, json_schema};
use serde_json::Value;

use crate::{
    allocating::Allocating,
    remedies::trim::{apply, preloaded},
};

const DONE: i32 = 0;
const PAGE: u64 = 4096;
/// What the program keeps of each size: 2 threads, one of a hundred blocks.
const BLOCKS: u64 = 2 * 60_000;
const KEPT: u64 = BLOCKS / 100;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn look(program: &Allocating) -> Value {
    let pid = program.pid().to_string();
    let told = Heapattach::new(["heap", "-p", &pid, "--view", "pins", "--json"]).run().expect(DONE);
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    let document = parsed(&told.stdout);
    assert_eq!(json_schema::faults(&parsed(&schema), &document), [""; 0]);
    document
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_else(|| panic!("no {name}: {value}"))
}

/// The row of the blocks that the program keeps, which its allocator has as blocks of `usable` bytes.
fn kept(document: &Value, usable: u64) -> Value {
    let rows = document["pins"]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| number(row, "size") == usable);
    let row = row.unwrap_or_else(|| panic!("no blocks of {usable} B: {}", document["pins"]));
    // A program that goes on has a few more of nearly that size.
    assert!((KEPT..KEPT + 8).contains(&number(row, "blocks")), "{row}");
    assert_eq!(number(row, "bytes"), number(row, "blocks") * usable, "{row}");
    // It keeps most of all, and nothing beside it does.
    assert_eq!(rows[0]["size"], row["size"]);
    let (pinned, alone) = (number(row, "pinned"), number(row, "alone"));
    assert!(pinned.abs_diff(alone - KEPT * usable) * 50 <= pinned, "{row}");
    row.clone()
}

/// Bytes in memory of what allocators have.
fn of_allocators(document: &Value) -> u64 {
    let arenas = document["allocators"].as_array().expect("allocators").iter();
    let arenas = arenas.flat_map(|one| one["arenas"].as_array().expect("arenas"));
    let parts = arenas.flat_map(|arena| arena["pages"].as_object().expect("parts").values());
    parts.map(|part| number(part, "resident")).sum()
}

#[test]
fn what_blocks_keep_is_what_a_trim_leaves() {
    // It goes on, so that a thread comes by that can call the function.
    let Some(mut program) = Allocating::of("fragmented.c", &["2", "60000"], &[]) else { return };
    let document = look(&program);
    let row = kept(&document, 1000);
    // Each lies on one page or two, 99 others away from the next.
    let alone = number(&row, "alone");
    assert!((KEPT * PAGE..KEPT * 2 * PAGE).contains(&alone), "{row}");
    let pins = &document["pins"];
    assert!(of_allocators(&document) > 4 * number(pins, "resident"), "{pins}");
    apply(program.pid(), "trim", None).expect(DONE);
    let after = look(&program);
    let (left, foretold) = (of_allocators(&after), number(pins, "resident"));
    assert!(left.abs_diff(foretold) * 10 <= foretold, "{left} B left, {foretold} B foretold");
    assert!(number(&kept(&after, 1000), "alone").abs_diff(alone) <= 16 * PAGE, "{after}");
    assert!(program.is_well());
}

#[test]
fn a_slab_counts_as_a_whole() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", "slab_sizes:1024-1024:4")];
    let arguments = ["2", "60000", "rest"];
    let Some(mut program) = Allocating::of("fragmented.c", &arguments, &environment) else {
        return;
    };
    let document = look(&program);
    let row = kept(&document, 1024);
    // Slabs of four pages have 16 blocks: no two of those that are kept are in one.
    assert_eq!(number(&row, "alone"), KEPT * 4 * PAGE, "{row}");
    assert_eq!(number(&row, "sparse_blocks"), KEPT, "{row}");
    let empty = number(&document["pins"], "empty");
    assert!(empty.abs_diff(KEPT * 3 * PAGE) <= 64 * PAGE, "{}", document["pins"]);
    assert!(program.is_well());
}

#[test]
fn the_view_says_what_is_kept_and_by_which_blocks() {
    let Some(mut program) = Allocating::of("fragmented.c", &["2", "60000", "rest"], &[]) else {
        return;
    };
    let pid = program.pid().to_string();
    let told = Heapattach::new(["heap", "-p", &pid, "--view", "pins"]).run().expect(DONE).stdout;
    let line = |start: &str| {
        let found = told.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start}: {told}"))
    };
    assert!(line("KEPT").contains("of blocks in use lie on"), "{told}");
    assert!(line("SPARSE").contains("of blocks in use keep"), "{told}");
    let row = told.lines().find(|line| line.contains("1 200") && line.contains("1000 B"));
    assert!(row.is_some(), "{told}");
    assert!(program.is_well());
}
