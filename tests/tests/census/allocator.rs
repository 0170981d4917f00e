//! `heapattach allocator`: figures true to a server's own, advice where something is wrong and none where
//! nothing is, rates, schema, exit statuses; and nothing is stopped or changed.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    fixture::Launch,
    json_schema::faults,
    real::{StartError, redis},
    skip::skip,
    trace::Before,
};
use serde_json::Value;

use crate::allocating::Allocating;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const REFUSED: i32 = 3;
const UNSUPPORTED: i32 = 4;

/// What is told, a document a look.
fn looks(pid: i32, more: &[&str], code: i32) -> Vec<Value> {
    let pid = pid.to_string();
    let words = ["allocator", "-p", &pid, "--json"];
    let outcome = Heapattach::new(words.iter().chain(more)).run().expect(code);
    let documents = serde_json::Deserializer::from_str(&outcome.stdout).into_iter();
    documents.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {outcome:?}"))
}

fn look(pid: i32, more: &[&str]) -> Value {
    looks(pid, more, DONE).pop().expect("a document")
}

fn rules(document: &Value) -> Vec<&str> {
    let advice = document["allocators"][0]["advice"].as_array().expect("advice");
    advice.iter().map(|advice| advice["rule"].as_str().expect("a name")).collect()
}

fn advice<'a>(document: &'a Value, rule: &str) -> &'a Value {
    let all = document["allocators"][0]["advice"].as_array().expect("advice");
    all.iter()
        .find(|advice| advice["rule"] == rule)
        .unwrap_or_else(|| panic!("no {rule}: {all:#?}"))
}

#[test]
fn a_look_fits_its_schema_and_leaves_the_process_as_it_was() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("4").start();
    let schema = Heapattach::new(["schema", "allocator"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    let before = Before::of(&mut fixture);
    let documents = looks(fixture.pid(), &["--every", "10ms", "--count", "3"], DONE);
    assert_eq!(documents.len(), 3);
    for document in &documents {
        assert_eq!(faults(&schema, document), [""; 0], "{document}");
        assert_eq!(document["allocators"][0]["allocator"], "glibc");
    }
    before.assert_equal(&mut fixture, "after three looks");
    fixture.assert_well();
    fixture.finish();
    let Some(program) = Allocating::jemalloc(&["3", "20000"], "narenas:2") else { return };
    let document = look(program.pid(), &[]);
    assert_eq!(faults(&schema, &document), [""; 0], "{document}");
    let own = &document["allocators"][0];
    assert_eq!(
        (&own["opt"]["narenas"], &own["origins"]["narenas"]["environment"]),
        (&Value::from(2), &Value::from("MALLOC_CONF"))
    );
}

#[test]
fn each_view_is_a_page_that_names_the_process() {
    let Some(program) = Allocating::jemalloc(&["3", "20000"], "") else { return };
    let pid = program.pid().to_string();
    for (view, word) in [
        ("summary", "ADVICE"),
        ("rates", "--every 1s"),
        ("sizes", "in slabs"),
        ("arenas", "retained"),
        ("locks", "extents_dirty"),
        ("settings", "dirty_decay_ms"),
    ] {
        let outcome = Heapattach::new(["allocator", &pid, "--view", view]).run().expect(DONE);
        assert!(outcome.stdout.starts_with(&format!("process {pid}")), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(word), "{view}: {}", outcome.stdout);
    }
}

#[test]
fn a_process_without_a_known_allocator_is_told_so_and_one_that_is_not_there_is_refused() {
    if let Some(fixture) = Launch::of(&Source::new("bare.c")) {
        let fixture = fixture.start();
        let document = looks(fixture.pid(), &[], UNSUPPORTED).pop().expect("a document");
        assert!(document["error"].as_str().is_some_and(|error| error.contains("no allocator")));
        fixture.finish();
    }
    // More than any pid.
    looks(1 << 30, &[], REFUSED);
}

#[test]
fn threads_that_wait_for_few_arenas_are_told_and_more_arenas_end_it() {
    let few = Allocating::jemalloc(&["48", "1000", "loop"], "narenas:1,tcache:false");
    let Some(few) = few else { return };
    let every = ["--every", "1s", "--count", "4"];
    let documents = looks(few.pid(), &every, DONE);
    drop(few);
    let told = documents.iter().find(|document| rules(document).contains(&"arenas_few"));
    let told = told.unwrap_or_else(|| panic!("no advice: {documents:#?}"));
    let setting = advice(told, "arenas_few")["setting"].as_str().expect("a setting");
    let (name, value) = setting.split_once('=').expect("a variable");
    // Its 48 threads, and the first.
    assert_eq!((name, value), ("MALLOC_CONF", "narenas:49"));
    let waits = |document: &Value| {
        let rates = document["allocators"][0]["rates"]["per_second"].clone();
        rates["bins.total_wait_time"].as_f64().unwrap_or(0.0)
    };
    let before = documents[1..].iter().map(waits).fold(0.0, f64::max);
    let Some(more) =
        Allocating::jemalloc(&["48", "1000", "loop"], &format!("{value},tcache:false"))
    else {
        return;
    };
    let documents = looks(more.pid(), &every, DONE);
    for document in &documents {
        assert!(!rules(document).contains(&"arenas_few"), "{document}");
    }
    let after = documents[1..].iter().map(waits).fold(0.0, f64::max);
    println!("waited {:.1} ms a second before, {:.1} ms after", before / 1e6, after / 1e6);
    assert!(after < before, "{after} {before}");
}

#[test]
fn pages_that_never_decay_are_told_and_pages_that_do_at_once_are_not() {
    let Some(slow) = Allocating::jemalloc(&["4", "60000"], "dirty_decay_ms:-1") else { return };
    let document = look(slow.pid(), &[]);
    let told = advice(&document, "dirty");
    assert!(told["cause"].as_str().is_some_and(|cause| cause.contains("never")), "{told}");
    // What can be done at once is told, and is what can be typed.
    assert_eq!(told["live"], serde_json::json!(["dirty_decay_ms=10000"]), "{told}");
    let pid = slow.pid().to_string();
    let page = Heapattach::new(["allocator", "-p", &pid]).run().expect(DONE).stdout;
    let command = format!("heapattach allocator -p {pid} --apply dirty_decay_ms=10000");
    assert!(page.contains(&command), "{page}");
    // Its threads rest: none comes by that could set it.
    let applied = Heapattach::new(command.split(' ').skip(1)).run().expect(FAILED).stderr;
    assert!(applied.contains("no thread of the target came to a place"), "{applied}");
    let Some(fast) = Allocating::jemalloc(&["4", "60000"], "dirty_decay_ms:0") else { return };
    let document = look(fast.pid(), &[]);
    let rules = rules(&document);
    assert!(!rules.contains(&"dirty") && !rules.contains(&"background_thread"), "{rules:?}");
}

#[test]
fn free_memory_in_arenas_of_glibc_is_told() {
    let Some(many) = Allocating::start(&["40", "8000", "sparse"], &[]) else { return };
    let document = look(many.pid(), &[]);
    let free = advice(&document, "glibc_free");
    assert!(free["setting"].as_str().is_some_and(|setting| setting.contains("malloc_trim")));
    let arenas = advice(&document, "glibc_arenas");
    assert_eq!(arenas["setting"], "MALLOC_ARENA_MAX=4");
    let Some(few) = Allocating::start(&["40", "8000"], &[("MALLOC_ARENA_MAX", "4")]) else {
        return;
    };
    let document = look(few.pid(), &[]);
    assert!(!rules(&document).contains(&"glibc_arenas"), "{document}");
    let own = &document["allocators"][0];
    assert_eq!((&own["opt"]["arena_max"], &own["stats"]["narenas"]), (&4.into(), &4.into()));
    assert_eq!(own["origins"]["arena_max"]["environment"], "MALLOC_ARENA_MAX");
}

/// Asks a server and gives the lines of its answer to the last of several questions.
fn ask(stream: &mut UnixStream, questions: &str, last: &str) -> String {
    stream
        .write_all(format!("{questions}{last}\r\nECHO end-of-this\r\n").as_bytes())
        .expect("sent");
    let mut reader = BufReader::new(stream);
    let (mut text, mut line) = (String::new(), String::new());
    while !line.starts_with("end-of-this") {
        line.clear();
        assert!(reader.read_line(&mut line).expect("an answer") > 0);
        text.push_str(&line);
    }
    text
}

#[test]
fn a_fragmented_servers_figures_are_its_own_and_its_advice_names_the_gaps() {
    let server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis-server here", cure),
        Err(StartError::Failed(error)) => panic!("{error}"),
    };
    let mut stream = UnixStream::connect(redis::socket(&server)).expect("a server");
    let sets =
        (0..200_000).map(|n| format!("SET key:{n} {}\r\n", "v".repeat(100 + n * 7919 % 500)));
    ask(&mut stream, "", sets.collect::<String>().trim_end());
    let mut x = 88_172_645_463_325_252_u64;
    let kept = |x: &mut u64| {
        *x ^= *x << 13;
        *x ^= *x >> 7;
        *x ^= *x << 17;
        x.is_multiple_of(5)
    };
    let deleted: Vec<_> = (0..200_000).filter(|_| !kept(&mut x)).collect();
    let deletes: String = deleted.iter().map(|n| format!("DEL key:{n}\r\n")).collect();
    ask(&mut stream, "", deletes.trim_end());
    // Twice: the server looks at its allocator every 100 ms.
    let info = |stream: &mut UnixStream| ask(stream, "", "MEMORY STATS");
    info(&mut stream);
    let document = look(server.pid(), &[]);
    let own = &document["allocators"][0]["stats"];
    let text = ask(&mut stream, "", "MEMORY MALLOC-STATS");
    let line = text.lines().find(|line| line.starts_with("Allocated:")).expect("the first line");
    let told: Vec<u64> =
        line.split([',', ' ', ':']).filter_map(|word| word.trim().parse().ok()).collect();
    let [allocated, active, metadata, resident, mapped, retained] = told[..] else {
        panic!("{line}")
    };
    for (name, told) in [
        ("allocated", allocated),
        ("active", active),
        ("metadata", metadata),
        ("resident", resident),
        ("mapped", mapped),
        ("retained", retained),
    ] {
        let read = own[name].as_u64().expect("a number");
        println!("{name}: {read} read, {told} told");
        assert!(read.abs_diff(told) * 20 <= told, "{name}: {read} read, {told} told");
    }
    let fragmented = advice(&document, "fragmentation");
    // With the system's library it cannot move its blocks.
    let module = document["allocators"][0]["module"].as_str().expect("a path");
    let defragments = module.ends_with("/redis-server");
    let setting = if defragments { "redis-cli CONFIG SET activedefrag yes" } else { "" };
    assert_eq!(fragmented["setting"], setting, "{module}");
    assert!(fragmented["cause"].as_str().is_some_and(|cause| cause.contains("% full")));
}
