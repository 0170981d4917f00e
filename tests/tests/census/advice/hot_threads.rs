//! A few threads that allocate nearly everything and wait for the locks of arenas that they share: `allocator` names them,
//! and the code of its advice, pasted into the program, ends the waits.

use std::collections::BTreeSet;

use heapattach_tests::{
    command::Heapattach,
    compile::Source,
    deadline::{PATIENCE, poll},
};
use serde_json::Value;

use crate::{allocating::Allocating, remedies::trim::preloaded};

const RULE: &str = "hot_threads";
const HOT: usize = 4;
/// The locks of one arena are waited for by few threads, too.
const SETTINGS: &str = "narenas:1";

/// The program, with that code at the beginning of its hot threads.
fn program(code: Option<&str>) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let source = Source::new("hot_threads.c");
    let source = match code {
        Some(code) => source.flag(&format!("-DPASTED={code}")),
        None => source,
    };
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", SETTINGS)];
    Allocating::built(&source, &[&HOT.to_string(), "28"], &environment)
}

fn looks(pid: i32) -> Vec<Value> {
    let pid = pid.to_string();
    let words = ["allocator", "-p", &pid, "--every", "1s", "--count", "4", "--json"];
    let told = Heapattach::new(words).run().expect(0).stdout;
    told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn advice(document: &Value) -> Option<&Value> {
    let advice = document["allocators"][0]["advice"].as_array().expect("advice");
    advice.iter().find(|one| one["rule"] == RULE)
}

/// How long threads waited for locks of bins, in seconds of a second: the most of all looks but the first.
fn waits(documents: &[Value]) -> f64 {
    let of = |document: &Value| {
        let rates = &document["allocators"][0]["rates"]["per_second"];
        rates["bins.total_wait_time"].as_f64().unwrap_or(0.0) / 1e9
    };
    documents[1..].iter().map(of).fold(0.0, f64::max)
}

/// The threads that are named.
fn numbers(advice: &Value) -> Vec<String> {
    let observation = advice["observation"].as_str().expect("a text");
    let (_, rest) = observation.split_once('(').expect("numbers");
    let (numbers, _) = rest.split_once(')').expect("numbers");
    numbers.split(", ").map(str::to_owned).collect()
}

/// The numbers of the threads that the program has named.
fn named(pid: i32) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let hot = entries.filter(|entry| {
        let name = std::fs::read_to_string(entry.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("hot-"))
    });
    hot.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn hot_threads_are_named_and_the_code_of_the_advice_ends_their_waits() {
    let Some(mut shared) = program(None) else { return };
    let hot = named(shared.pid());
    assert_eq!(hot.len(), HOT);
    let (mut all, mut documents) = (BTreeSet::new(), Vec::new());
    // On a busy machine a thread of these does not run between two looks.
    let told = poll(PATIENCE, || {
        documents.extend(looks(shared.pid()));
        all.extend(documents.iter().filter_map(advice).flat_map(numbers));
        (all == hot).then_some(())
    });
    assert!(told.is_some(), "{all:?}, {hot:?}: {documents:#?}");
    let told = documents.iter().find_map(advice).expect("it was told");
    println!("{}", told["observation"]);
    let before = waits(&documents);
    assert!(shared.is_well());
    // As it stands there.
    let setting = told["setting"].as_str().expect("code");
    let (_, code) = setting.split_once("begins: ").expect("code");
    let code = code.split_once("; a lower").map_or(code, |(code, _)| code);
    drop(shared);
    let Some(mut own) = program(Some(code)) else { return };
    let documents = looks(own.pid());
    let after = waits(&documents);
    println!("waited {before:.3} s of each second before, {after:.3} s after");
    for document in &documents {
        assert!(advice(document).is_none(), "{document:#}");
    }
    assert!(after * 5.0 < before, "{after} {before}");
    assert!(own.is_well());
}
