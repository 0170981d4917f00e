//! Looks that a rule of an agent asks for from time to time: at allocators, beside a session; at all memory, between
//! two sessions, kept as a moment.

use std::fs;

use heapattach_tests::{
    command::{Heapattach, Running},
    deadline::{PATIENCE, poll, wait_until},
    fingerprint::Fingerprint,
    json_schema::faults,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agent::{Place, assert_clean, cycles, events, is_touched},
    server::ask,
};

fn metrics(running: &Running) -> String {
    let event = poll(PATIENCE, || events(&running.talk(), "serving").pop()).expect("an address");
    let host = event["url"].as_str().expect("text").replace("http://", "");
    ask(&host, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

fn figure(text: &str, start: &str) -> Option<f64> {
    text.lines().find(|line| line.starts_with(start))?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn what_allocators_count_is_told_beside_the_session() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = ':0'\n", "allocator = '1s'");
    let mut fixture = place.fixture();
    // Before that it has no heap.
    fixture.step(1, 100);
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    let running = place.start();
    let looks = || figure(&metrics(&running), "heapattach_agent_looks_total{look=\"allocator\"}");
    wait_until("two looks", 2 * PATIENCE, || looks() >= Some(2.0));
    // The session goes on, and the process rests: every number is that of another look.
    wait_until("a session", PATIENCE, || is_touched(fixture.pid()));
    assert_eq!(events(&running.talk(), "detached").len(), 0, "{}", running.talk());
    let pid = fixture.pid().to_string();
    let document = Heapattach::new(["allocator", "-p", &pid, "--json"]).run().expect(0).stdout;
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let told = metrics(&running);
    let allocators = document["allocators"].as_array().expect("a list");
    let mut compared = 0;
    for one in allocators {
        for (stat, value) in one["stats"].as_object().expect("an object") {
            let end = format!("stat=\"{stat}\"}} ");
            let mut lines = told.lines().filter(|line| line.starts_with("heapattach_allocator{"));
            let line =
                lines.find(|line| line.contains(&format!("pid=\"{pid}\"")) && line.contains(&end));
            let found = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            assert_eq!(found, value.as_f64(), "{stat}: {told}");
            compared += 1;
        }
    }
    assert!(compared > 2, "{document}");
    let event = &events(&running.talk(), "allocator")[0];
    assert!(event["allocators"][0]["stats"].is_object(), "{event}");
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert_clean(&before, fixture.pid());
    fixture.finish();
}

#[test]
fn a_census_is_a_moment_in_the_spool_and_the_process_is_watched_again() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = ':0'\n", "census = '3s'");
    let mut fixture = place.fixture();
    fixture.step(1, 100);
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    let running = place.start();
    wait_until("a census", 4 * PATIENCE, || !events(&running.talk(), "census").is_empty());
    let event = events(&running.talk(), "census")[0].clone();
    let path = event["path"].as_str().expect("text").to_owned();
    assert!(path.starts_with(place.folder.0.join("state/spool").to_str().expect("text")), "{path}");
    assert!(event["stopped_ms"].as_f64() > Some(0.0), "{event}");
    let shown = Heapattach::new(["report", &path]).run().expect(0).stdout;
    assert!(!shown.is_empty());
    assert!(event["told"].as_str().is_some_and(|told| told.contains("stopped for")), "{event}");
    let named = format!("-{}-", fixture.pid());
    let refused = events(&running.talk(), "refused");
    assert!(refused.iter().all(|one| one["pid"] == fixture.pid()), "a clone is none: {refused:?}");
    assert!(path.contains(&named), "{path}");
    // It was watched before, or is now for the first time.
    let attaches = || events(&running.talk(), "attach").len();
    let ended = events(&running.talk(), "detached").len();
    wait_until("a session", PATIENCE, || attaches() > ended);
    wait_until("its figures", PATIENCE, || {
        let told = metrics(&running);
        let used = "heapattach_agent_budget_used{limit=\"stopped-ms-per-hour\"}";
        figure(&told, used) > Some(0.0)
            && figure(&told, "heapattach_agent_looks_total{look=\"census\"}") >= Some(1.0)
            && figure(&told, "heapattach_agent_spool_files") >= Some(1.0)
    });
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert!(!is_touched(fixture.pid()));
    assert_clean(&before, fixture.pid());
    fixture.step(1, 10);
    fixture.finish();
}

#[test]
fn no_census_is_made_of_a_process_that_was_stopped_for_long_enough() {
    let Some(place) = Place::new() else { return };
    place.write("census = '1s'");
    let text = fs::read_to_string(place.config()).expect("a file of ours");
    let text = text.replace("stopped-ms-per-hour = 1e9", "stopped-ms-per-hour = 0.5");
    fs::write(place.config(), text).expect("a file of ours");
    let fixture = place.fixture();
    let running = place.start();
    wait_until("the reason", 2 * PATIENCE, || !events(&running.talk(), "look-waits").is_empty());
    let event = events(&running.talk(), "look-waits")[0].clone();
    assert!(event["told"].as_str().is_some_and(|told| told.contains("stopped for")), "{event}");
    running.signal(Signal::SIGTERM);
    let talk = running.wait().expect(0).stderr;
    assert_eq!(events(&talk, "look-waits").len(), 1, "it is said once: {talk}");
    assert_eq!(events(&talk, "census").len() + events(&talk, "no-look").len(), 0, "{talk}");
    fixture.finish();
}

#[test]
fn a_dry_run_says_what_is_looked_at_and_when() {
    let Some(place) = Place::new() else { return };
    place.write("census = '6h'\nallocator = '1s'");
    let fixture = place.fixture();
    wait_until("its age", PATIENCE, || {
        place.dry_run()["processes"][0]["looks"][0]["due_in_s"] == 0
    });
    let document = place.dry_run();
    let schema = Heapattach::new(["schema", "agent"]).run().expect(0).stdout;
    let schema = serde_json::from_str(&schema).expect("JSON");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let looks = &document["processes"][0]["looks"];
    assert_eq!((&looks[0]["look"], &looks[1]["look"]), (&"allocator".into(), &"census".into()));
    assert_eq!(looks[1]["every_s"], 21_600.0);
    assert!(looks[1]["due_in_s"].as_u64() > Some(21_000), "{looks}");
    let told = place.command(&["--dry-run"]).run().expect(0).stdout;
    assert!(told.contains("census every 6 h 00 min (next in 5 h 59 min"), "{told}");
    fixture.finish();
}

/// Killed or told to end while a census goes on, which has a fork of the process made.
#[test]
fn ended_in_a_census_it_leaves_the_process_as_it_was() {
    let Some(place) = Place::new() else { return };
    place.write("census = '1s'");
    let mut fixture = place.fixture();
    fixture.step(1, 100);
    let before = Fingerprint::of(fixture.pid()).expect("a process of ours");
    let begins = place.folder.0.join(format!("state/sessions/{}.census.log", fixture.pid()));
    for round in 0..2 * cycles() {
        let _ = fs::remove_file(&begins);
        let running = place.start();
        wait_until("a census", 4 * PATIENCE, || begins.exists());
        // At the beginning of it, and somewhere in it.
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round / 2) * 15));
        if round % 2 == 0 {
            running.signal(Signal::SIGKILL);
            assert_eq!(running.wait().signal(), Some(9));
        } else {
            running.signal(Signal::SIGTERM);
            running.wait().expect(0);
            // A census of the agent that was killed before may have begun late: it undoes itself.
            wait_until("the end of it", PATIENCE, || !is_touched(fixture.pid()));
            assert_clean(&before, fixture.pid());
        }
        fixture.step(1, 1);
    }
    // What was killed last is cleaned up by the next.
    let running = place.start();
    wait_until("an agent", 4 * PATIENCE, || !events(&running.talk(), "begun").is_empty());
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    wait_until("the end of it", PATIENCE, || !is_touched(fixture.pid()));
    assert_clean(&before, fixture.pid());
    fixture.step(1, 1);
    fixture.finish();
}
