//! Who may have allocated the blocks from before a session, beside a program that knows it.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    fixture::{Fixture, Launch},
    json_schema::faults,
    real::{Server, StartError, redis},
    seed::Random,
    skip::skip,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const DONE: i32 = 0;
const INTERRUPTED: i32 = 130;
/// Functions of the program, in the order in which it tells their bytes.
const PLACES: [&str; 12] = [
    "make_user ",
    "make_order ",
    "make_name ",
    "make_note ",
    "make_items ",
    "make_items ",
    "make_user_tag ",
    "make_cache_a ",
    "make_cache_b ",
    "make_line ",
    "make_session ",
    "make_config ",
];
const CACHES: [&str; 2] = ["make_cache_a ", "make_cache_b "];
/// Units of blocks before the session, and in it.
const BEFORE: u64 = 40_000;
/// Steps that allocate.
const OLD: u64 = 1;
const AS_BEFORE: u64 = 2;
const OTHERWISE: u64 = 3;
const REQUEST: u64 = 4;
const TRUTH: u64 = 10;

/// What is told of a session in which the program does a step.
fn session(fixture: &mut Fixture, step: u64, units: u64, interval: &str) -> (Value, String) {
    let folder = Folder::new("likely-sites");
    let recording = folder.0.join("a.heapattach");
    let path = recording.to_str().expect("a path of ours");
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--census").arg("-o").arg(path);
    let command = command.arg(format!("--every={interval}")).arg("--on-full=wait");
    let attached = Attached::start(command, fixture);
    fixture.step(step, units);
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let document = running.wait().expect(INTERRUPTED).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let schema = Heapattach::new(["schema", "report"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let told = Heapattach::new(["report", path]).run().expect(DONE).stdout;
    (document["census"]["sites"]["likely"].clone(), told)
}

fn bytes(amount: &Value) -> f64 {
    amount["bytes"].as_f64().unwrap_or_else(|| panic!("no bytes: {amount}"))
}

/// What the program allocated in one function before the session.
fn truth(fixture: &mut Fixture, function: &str) -> f64 {
    let places = (TRUTH..).zip(PLACES).filter(|(_, name)| *name == function);
    #[allow(clippy::cast_precision_loss)]
    let sum = places.map(|(step, _)| fixture.step(step, 0) as f64).sum();
    sum
}

/// Whatever is told fits together; the part of what is likely that is right, and how much of what could be told is.
fn judge(fixture: &mut Fixture, likely: &Value) -> (f64, f64) {
    let all = bytes(&likely["unrecorded"]);
    let parts = ["likely", "spread", "outlived", "unlike"].map(|part| bytes(&likely[part]));
    assert!((parts.iter().sum::<f64>() - all).abs() < 1.0, "{likely}");
    let rows = likely["rows"].as_array().expect("rows");
    let sum = |bytes: &dyn Fn(&Value) -> f64| rows.iter().map(bytes).sum::<f64>();
    assert!((sum(&|row| bytes(&row["likely"])) - parts[0]).abs() < 1.0, "{likely}");
    let spread = sum(&|row| row["spread"]["value"].as_f64().expect("a number"));
    assert!((spread - parts[1]).abs() < 16.0, "{likely}");
    let (mut right, mut could) = (0.0, 0.0);
    let mut functions = PLACES.to_vec();
    functions.dedup();
    for function in functions.into_iter().filter(|name| !CACHES.contains(name)) {
        let truth = truth(fixture, function);
        let own = rows
            .iter()
            .filter(|row| row["place"].as_str().is_some_and(|at| at.starts_with(function)));
        let told: f64 = own.map(|row| bytes(&row["likely"])).sum();
        println!("{function}: {told} B likely, {truth} B");
        right += told.min(truth);
        could += if function == "make_config " { 0.0 } else { truth };
    }
    (right / parts[0], right / could)
}

/// What nothing tells apart is no place's, and is spread as it is allocated now.
fn is_spread(likely: &Value, shares: [f64; 2], old: f64) {
    let rows = likely["rows"].as_array().expect("rows");
    for (function, share) in CACHES.into_iter().zip(shares) {
        let row = rows
            .iter()
            .find(|row| row["place"].as_str().is_some_and(|at| at.starts_with(function)))
            .unwrap_or_else(|| panic!("no {function}: {likely}"));
        assert_eq!(bytes(&row["likely"]), 0.0, "{row}");
        let value = |end: &str| row["spread"][end].as_f64().expect("a number");
        // As wide again: the interval is one of 95 %.
        let room = value("high") - value("low");
        let expected = old * share;
        assert!(
            value("low") - room <= expected && expected <= value("high") + room,
            "{expected}: {row}"
        );
    }
}

#[test]
fn blocks_from_before_are_of_the_places_that_allocate_such_ones_now() {
    let Some(mut fixture) = Launch::new("likely_sites.cpp").map(Launch::start) else { return };
    fixture.step(OLD, BEFORE);
    let (likely, told) = session(&mut fixture, AS_BEFORE, BEFORE, "1");
    let (right, found) = judge(&mut fixture, &likely);
    println!(
        "{:.2} % of what is likely is right, {:.2} % of what could be told",
        right * 100.0,
        found * 100.0
    );
    assert!(right >= 0.99 && found >= 0.95, "{likely:#}");
    assert!(likely["purity"].as_f64().is_some_and(|purity| purity >= 0.99), "{likely}");
    let old = truth(&mut fixture, CACHES[0]) + truth(&mut fixture, CACHES[1]);
    is_spread(&likely, [2.0 / 3.0, 1.0 / 3.0], old);
    assert!(
        told.contains("are from before the session") && told.contains("Likely allocated by"),
        "{told}"
    );
    fixture.finish();
}

#[test]
fn what_is_likely_is_right_where_the_program_allocates_otherwise_now() {
    let Some(mut fixture) = Launch::new("likely_sites.cpp").map(Launch::start) else { return };
    fixture.step(OLD, BEFORE);
    let (likely, _) = session(&mut fixture, OTHERWISE, BEFORE / 10, "1");
    let (right, found) = judge(&mut fixture, &likely);
    println!(
        "{:.2} % of what is likely is right, {:.2} % of what could be told",
        right * 100.0,
        found * 100.0
    );
    assert!(right >= 0.95 && found >= 0.8, "{likely:#}");
    fixture.finish();
}

#[test]
fn samples_are_enough_and_are_said_to_be_samples() {
    let Some(mut fixture) = Launch::new("likely_sites.cpp").map(Launch::start) else { return };
    fixture.step(OLD, BEFORE);
    let (likely, told) = session(&mut fixture, AS_BEFORE, BEFORE, "4K");
    let (right, _) = judge_sampled(&mut fixture, &likely);
    assert!(right >= 0.95, "{likely:#}");
    assert!(told.contains("or were not sampled"), "{told}");
    fixture.finish();
}

/// Blocks that were not sampled are among the others, as many of each place as there are of old ones.
fn judge_sampled(fixture: &mut Fixture, likely: &Value) -> (f64, f64) {
    let rows = likely["rows"].as_array().expect("rows");
    let (mut right, mut all) = (0.0, 0.0);
    for row in rows {
        let place = row["place"].as_str().expect("a place");
        let function = PLACES.into_iter().find(|name| place.starts_with(name));
        let truth = function.map_or(0.0, |function| truth(fixture, function));
        let told = bytes(&row["likely"]);
        // Of both halves, of which some were recorded.
        right += told.min(truth * 2.0);
        all += told;
    }
    assert!(all > 0.0, "{likely}");
    (right / all, all)
}

/// Blocks of a step of those that are freed soon, and how long steps follow one another, at first.
const REQUESTS: u64 = 1000;
const LONG: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;

/// A session in which the program has a few blocks at a time; at its end those of the last step.
fn requests(fixture: &mut Fixture, long: Duration) -> (Value, String) {
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--census");
    let folder = Folder::new("outlived");
    let recording = folder.0.join("a.heapattach");
    let path = recording.to_str().expect("a path of ours");
    let command = command.arg("-o").arg(path).arg("--every=1").arg("--on-full=wait");
    let attached = Attached::start(command, fixture);
    let end = Instant::now() + long;
    while Instant::now() < end {
        fixture.step(REQUEST, REQUESTS);
    }
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let document = running.wait().expect(INTERRUPTED).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let told = Heapattach::new(["report", path]).run().expect(DONE).stdout;
    (document["census"]["sites"]["likely"].clone(), told)
}

#[test]
fn what_is_older_than_blocks_of_a_place_live_is_not_told_to_be_its() {
    let Some(mut fixture) = Launch::new("likely_sites.cpp").map(Launch::start) else { return };
    fixture.step(OLD, BEFORE);
    let truth = truth(&mut fixture, "make_config ");
    for attempt in 1.. {
        let (likely, told) = requests(&mut fixture, LONG * attempt);
        let rows = likely["rows"].as_array().expect("rows").iter();
        let own =
            |row: &&Value| row["place"].as_str().is_some_and(|at| at.starts_with("make_request "));
        let row = rows.clone().find(own).unwrap_or_else(|| panic!("no row: {likely}"));
        // The machine may have been so slow that the last ones are of the first half of the session.
        if bytes(&row["outlived"]) == 0.0 && attempt < ATTEMPTS {
            continue;
        }
        // Others of that size, too: the place has allocated none of all blocks from before.
        let outlived = bytes(&row["outlived"]);
        assert!(outlived >= truth && bytes(&row["likely"]) == 0.0, "{likely:#}");
        assert_eq!(bytes(&likely["outlived"]), outlived, "{likely:#}");
        let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("older than any block of that place lived for"), "{told}");
        break;
    }
    fixture.finish();
}

/// Keys of a redis before the session, and in it.
const KEYS: u64 = 3000;

/// Has it store texts, hashes and lists of any length; the same kinds each time.
fn store(server: &Server, first: u64, random: &mut Random) {
    let mut stream = UnixStream::connect(redis::socket(server)).expect("a server");
    let (mut all, mut commands) = (Vec::new(), 0);
    for key in first..first + KEYS {
        let mut words = match key % 3 {
            0 => vec!["SET".to_owned(), format!("text:{key}")],
            1 => vec!["HSET".to_owned(), format!("hash:{key}")],
            _ => vec!["RPUSH".to_owned(), format!("list:{key}")],
        };
        let values = if key % 3 == 0 { 1 } else { random.between(1, 200) };
        for value in 0..values {
            if key % 3 == 1 {
                words.push(format!("field {value}"));
            }
            words.push("v".repeat(usize::try_from(random.between(10, 90)).expect("a length")));
        }
        all.extend(format!("*{}\r\n", words.len()).into_bytes());
        all.extend(
            words.iter().flat_map(|word| format!("${}\r\n{word}\r\n", word.len()).into_bytes()),
        );
        commands += 1;
    }
    stream.write_all(&all).expect("commands");
    let (mut answers, mut buffer) = (0, [0; 4096]);
    while answers < commands {
        let read = stream.read(&mut buffer).expect("answers");
        assert!(read > 0, "{answers} answers");
        answers += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
    }
}

#[test]
fn what_a_redis_had_before_is_told_by_what_the_same_commands_store_now() {
    let server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis-server here", cure),
        Err(error) => panic!("{error:?}"),
    };
    // The same lengths twice.
    store(&server, 0, &mut Random::new(7));
    let command = Attached::command(server.pid(), Hooks::Auto).arg("--census").arg("--every=1");
    let attached = Attached::open(command.arg("--on-full=wait")).expect("attached");
    store(&server, KEYS, &mut Random::new(7));
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let document = running.wait().expect(INTERRUPTED).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let sites = &document["census"]["sites"];
    let likely = &sites["likely"];
    let all = bytes(&likely["unrecorded"]);
    let purity = likely["purity"].as_f64().expect("a number");
    let part = bytes(&likely["likely"]) / all;
    println!("{:.1} % of {all} B likely, purity {:.2} %", part * 100.0, purity * 100.0);
    assert!(part >= 0.8 && purity >= 0.97, "{likely:#}");
    // Each place has as much from before as of now.
    let mut by_place: BTreeMap<&str, [f64; 2]> = BTreeMap::new();
    for row in likely["rows"].as_array().expect("rows") {
        let spread = row["spread"]["value"].as_f64().expect("a number");
        by_place.entry(row["place"].as_str().expect("a place")).or_default()[0] +=
            bytes(&row["likely"]) + spread;
    }
    for row in sites["rows"].as_array().expect("rows") {
        let place = row["place"].as_str().expect("a place");
        by_place.entry(place).or_default()[1] +=
            row["occupied"]["value"].as_f64().expect("a number");
    }
    let apart: f64 = by_place.values().map(|[old, new]| (old - new).abs()).sum::<f64>() / 2.0;
    println!("{:.1} % are told of another place", apart * 100.0 / all);
    assert!(apart <= all / 10.0, "{by_place:#?}");
}
