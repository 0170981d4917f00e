//! `heapattach heap`: what all memory is, of the fixture and of servers; sums, schema, exit statuses, no trace.

use std::fs;

use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    fixture::Launch,
    json_schema::faults,
    real::{Server, StartError, memcached, nginx, redis},
    skip::skip,
    trace::Before,
};
use serde_json::Value;

const DONE: i32 = 0;
const REFUSED: i32 = 3;
const UNSUPPORTED: i32 = 4;

fn json(pid: i32, more: &[&str], code: i32) -> Value {
    let pid = pid.to_string();
    let words = ["heap", "-p", &pid, "--json"];
    let outcome = Heapattach::new(words.iter().chain(more)).run().expect(code);
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Parts sum up to what the kernel says, and arenas to their parts.
fn assert_sums(document: &Value, what: &str) {
    let memory = &document["memory"];
    let parts = memory["parts"].as_array().expect("parts");
    for place in ["resident", "swapped"] {
        let sum: u64 = parts.iter().map(|part| number(&part[place])).sum();
        let zero = if place == "resident" { number(&memory["zero_page"]) } else { 0 };
        assert_eq!(sum, number(&memory["total"][place]) + zero, "{what}: {memory}");
    }
    let of = |name: &str| {
        let part = parts.iter().find(|part| part["part"] == name);
        number(&part.expect("all parts are told")["resident"])
    };
    let arenas = document["allocators"].as_array().expect("allocators").iter();
    let arenas = arenas.flat_map(|one| one["arenas"].as_array().expect("arenas"));
    let live: u64 = arenas.map(|arena| number(&arena["pages"]["live"]["resident"])).sum();
    assert_eq!(of("live"), live, "{what}");
    let unexplained = of("unexplained");
    assert!(unexplained * 200 <= number(&memory["total"]["resident"]), "{what}: {unexplained}");
}

fn rss(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("a living process");
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).expect("Rss");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("KiB") * 1024
}

#[test]
fn sums_are_the_kernels_and_the_process_is_as_it_was() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("4").start();
    let schema = Heapattach::new(["schema", "heap"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    let before = Before::of(&mut fixture);
    for snapshot in ["fork", "stop", "early"] {
        // A thread on its way to sleep can touch a page of its stack meanwhile, once.
        let mut looks = (0..3).map(|_| {
            let resident = rss(fixture.pid());
            let options = ["--snapshot", snapshot, "--max-pause=60s"];
            (resident, json(fixture.pid(), &options, DONE))
        });
        let is_at_rest = |(resident, _): &(u64, Value)| rss(fixture.pid()) == *resident;
        let (resident, document) = looks.find(is_at_rest).expect("a process at rest");
        assert_eq!(faults(&schema, &document), [""; 0], "{document}");
        assert_eq!(document["moment"]["method"], snapshot, "{}", document["moment"]);
        assert_sums(&document, snapshot);
        assert_eq!(number(&document["memory"]["total"]["resident"]), resident, "{snapshot}");
        assert_eq!(document["allocators"][0]["is_exact"], true, "{}", document["allocators"]);
        assert_eq!(rss(fixture.pid()), resident, "the resident set has grown");
        before.assert_equal(&mut fixture, &format!("after a look by {snapshot}"));
    }
    fixture.finish();
}

#[test]
fn what_a_clone_would_stop_for_too_long_is_copied_early_by_itself() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("4").start();
    let before = Before::of(&mut fixture);
    let pid = fixture.pid().to_string();
    // A clone is taken for 10 ms at least. On a busy machine what is left to be copied can be too much for the rest of 9.
    let mut looks = (0..200).map(|_| {
        let look = Heapattach::new(["heap", &pid, "--max-pause=9ms", "--json"]).run();
        let document: Value = serde_json::from_str(&look.stdout).expect("JSON");
        let is_late = document["error"].as_str().is_some_and(|error| {
            error.contains(
                "too much to be copied in the stop; it would stop the process for about 1",
            )
        });
        assert!(look.code() == Some(0) || is_late, "{}", look.stderr);
        (look, document)
    });
    let looked = looks.find(|(look, _)| look.code() == Some(0));
    let (_, document) = looked.expect("one of 200 stops that are short enough");
    assert_eq!(document["moment"]["method"], "early", "{}", document["moment"]);
    let why = document["moment"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("a clone would stop it for about 1"), "{why}");
    assert_sums(&document, "early");
    let page = Heapattach::new(["heap", &pid, "--snapshot=auto"]).run().expect(DONE).stdout;
    assert!(page.contains("kept by a clone"), "{page}");
    before.assert_equal(&mut fixture, "after looks that were copied early");
    fixture.finish();
}

#[test]
fn each_view_is_a_page_that_names_the_process() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let fixture = Launch::program(&program).arg("2").start();
    let pid = fixture.pid().to_string();
    for (view, word) in [
        ("summary", "VERDICT"),
        ("sizes", "usable size"),
        ("arenas", "arena 1"),
        ("mappings", "[heap]"),
        ("pages", "less than a tenth"),
        ("types", "no block in use"),
        ("unreachable", "LEAKED"),
    ] {
        let outcome = Heapattach::new(["heap", &pid, "--view", view]).run().expect(DONE);
        assert!(outcome.stdout.starts_with(&format!("process {pid}")), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(word), "{view}: {}", outcome.stdout);
    }
    fixture.finish();
}

#[test]
fn blocks_that_came_between_two_looks_are_the_difference() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("1").start();
    let blocks = |document: &Value| -> u64 {
        let arenas = document["allocators"][0]["arenas"].as_array().expect("arenas").iter();
        arenas.map(|arena| number(&arena["used_blocks"])).sum()
    };
    let before = blocks(&json(fixture.pid(), &[], DONE));
    fixture.step(1, 1000);
    assert_eq!(blocks(&json(fixture.pid(), &[], DONE)), before + 1000);
    fixture.finish();
}

#[test]
fn a_process_without_a_known_allocator_is_told_so() {
    let source = Source::new("bare.c");
    let Some(fixture) = Launch::of(&source) else { return };
    let fixture = fixture.start();
    let document = json(fixture.pid(), &[], UNSUPPORTED);
    assert_eq!(document["verdict"]["kind"], "no_allocator", "{document}");
    assert_sums(&document, "bare.c");
    drop(fixture);
    let own = std::process::id();
    let gone = json(i32::try_from(own).expect("a pid").wrapping_add(1 << 29), &[], REFUSED);
    assert!(gone["error"].as_str().is_some_and(|why| why.contains("untouched")), "{gone}");
}

#[test]
fn a_look_that_would_stop_the_process_for_too_long_is_refused_beforehand() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("1").start();
    let before = Before::of(&mut fixture);
    for snapshot in ["fork", "stop"] {
        let more = ["--max-pause", "1ms", "--snapshot", snapshot];
        let told = json(fixture.pid(), &more, REFUSED);
        let why = told["error"].as_str().expect("a reason");
        assert!(why.contains("--max-pause") && why.contains("untouched"), "{why}");
        before.assert_equal(&mut fixture, &format!("after a refusal ({snapshot})"));
    }
    fixture.finish();
}

fn started(started: Result<Server, StartError>) -> Option<Server> {
    match started {
        Ok(server) => Some(server),
        Err(StartError::Missing(cure)) => {
            skip("a server is not installed", cure);
            None
        }
        Err(StartError::Failed(why)) => panic!("a server does not start: {why}"),
    }
}

#[test]
fn the_memory_of_servers_is_explained() {
    for (name, server) in
        [("memcached", memcached::start()), ("nginx", nginx::start()), ("redis", redis::start())]
    {
        let Some(server) = started(server) else { continue };
        let pid = server.pid();
        let outcome = Heapattach::new(["heap", "-p", &pid.to_string(), "--json"]).run();
        let document: Value = serde_json::from_str(&outcome.stdout).expect(name);
        assert_sums(&document, name);
        let exact = document["allocators"].as_array().expect("allocators").iter();
        assert!(exact.clone().all(|one| one["is_exact"] == true), "{name}: {document}");
    }
}
