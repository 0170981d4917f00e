//! What an agent tells over HTTP: of each process what `serve` does, and figures of its own, to the same askers.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::{fs::PermissionsExt, net::UnixStream},
};

use flate2::read::GzDecoder;
use heapattach_tests::{
    command::Running,
    deadline::{PATIENCE, poll, wait_until},
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    agent::{Place, events},
    server::{ask, figure},
};

/// Where the agent listens.
fn host(running: &Running) -> String {
    let event = poll(PATIENCE, || events(&running.talk(), "serving").pop()).expect("an address");
    event["url"].as_str().expect("text").replace("http://", "")
}

fn get(host: &str, path: &str) -> (String, String) {
    let answer = ask(host, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let status = answer.split(' ').nth(1).unwrap_or("nothing").to_owned();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    (status, body.unwrap_or_default())
}

/// The strings of a profile that a path has.
fn profile(host: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(host).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let mut bytes = Vec::new();
    GzDecoder::new(&answer[head + 4..]).read_to_end(&mut bytes).expect("a profile");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A figure with this label.
fn labelled(text: &str, name: &str, label: &str) -> Option<f64> {
    let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
    lines.find(|line| line.contains(label))?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn each_process_that_is_watched_has_its_routes_and_the_agent_its_figures() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = ':0'\n", "");
    let (mut one, other) = (place.fixture(), place.fixture());
    let running = place.start();
    let host = host(&running);
    let metrics = |pid: i32| get(&host, &format!("/p/{pid}/metrics")).1;
    for fixture in [&one, &other] {
        let live = || figure(&metrics(fixture.pid()), "heapattach_live_bytes");
        wait_until("a session", PATIENCE, || live().is_some());
    }
    let pid = one.pid();
    #[allow(clippy::cast_precision_loss)]
    let bytes = one.step(1, 1000) as f64;
    wait_until("what is kept", PATIENCE, || {
        figure(&metrics(pid), "heapattach_live_bytes") == Some(bytes)
    });
    let strings = profile(&host, &format!("/p/{pid}/debug/pprof/heap"));
    assert!(strings.contains("inuse_space") && strings.contains("keep"), "{strings}");
    let listed = || serde_json::from_str::<Value>(&get(&host, "/sd").1).expect("JSON");
    let list = listed();
    assert_eq!(list.as_array().map(Vec::len), Some(2), "{list}");
    let prefixes = list.to_string();
    assert!(prefixes.contains(&format!("/p/{pid}\"")), "{prefixes}");

    // Its own figures: within the budget of the file, and of both.
    let (status, told) = get(&host, "/metrics");
    assert_eq!(status, "200");
    assert_eq!(labelled(&told, "heapattach_agent_sessions", "rule=\"fixture\""), Some(2.0));
    assert_eq!(labelled(&told, "heapattach_agent_barred", "rule=\"fixture\""), Some(0.0));
    let used = |limit: &str| labelled(&told, "heapattach_agent_budget_used", limit).expect(limit);
    assert!(used("memory") > 1e6 && used("memory") < 64.0 * 1_073_741_824.0, "{told}");
    assert!((0.0..100.0).contains(&used("processors-percent")), "{told}");
    assert!(told.contains("\nheapattach_agent_attaches_total 2\n"), "{told}");
    assert!(told.contains("\nheapattach_agent_spool_files 0\n"), "{told}");
    assert!(figure(&told, "heapattach_live_bytes").is_some(), "those of processes, too: {told}");

    // A path without a number is of no process, whether one is watched or two.
    other.finish();
    wait_until("one less", PATIENCE, || listed().as_array().map(Vec::len) == Some(1));
    assert_eq!(get(&host, "/debug/pprof/heap").0, "404");
    assert_eq!(get(&host, &format!("/p/{pid}/healthz")).0, "200");
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert!(TcpStream::connect(&host).is_err(), "nothing listens any more");
    one.step(1, 1);
    one.finish();
}

#[test]
fn strangers_are_turned_away_and_nothing_is_done_for_anyone() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = ':0'\nallow-host = ['node.lan']\n", "");
    let running = place.start();
    let host = host(&running);
    for (request, wanted) in [
        ("GET /metrics HTTP/1.1\r\nHost: node.lan\r\n\r\n", "200"),
        ("GET /sd HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "421"),
        ("GET /sd HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n", "403"),
        ("POST /sd HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405"),
        ("DELETE /p/1/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        // A process that no rule fits.
        ("GET /p/1/debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = ask(&host, request);
        assert_eq!(answer.split(' ').nth(1), Some(wanted), "{request}: {answer}");
    }
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
}

#[test]
fn of_a_slot_it_is_told_what_survived_and_nothing_to_be_in_use() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = ':0'\n", "mode = 'rotate'\nslot = '1h'");
    let mut fixture = place.fixture();
    let running = place.start();
    let (host, pid) = (host(&running), fixture.pid());
    let metrics = || get(&host, &format!("/p/{pid}/metrics")).1;
    wait_until("a session", PATIENCE, || {
        figure(&metrics(), "heapattach_allocated_bytes_total").is_some()
    });
    fixture.step(1, 100);
    wait_until("blocks", PATIENCE, || {
        figure(&metrics(), "heapattach_allocated_blocks_total") >= Some(100.0)
    });
    assert!(!metrics().contains("live_bytes{"), "{}", metrics());
    let strings = profile(&host, &format!("/p/{pid}/debug/pprof/heap"));
    assert!(strings.contains("survived_space") && !strings.contains("inuse"), "{strings}");
    for path in ["", "debug/pprof/delta_heap", "pprof/heap", "events", "recording"] {
        let (status, why) = get(&host, &format!("/p/{pid}/{path}"));
        assert_eq!((status.as_str(), why.contains("slot")), ("404", true), "{path}: {why}");
    }
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    fixture.finish();
}

#[test]
fn others_need_a_token_a_socket_is_its_owners_and_another_place_a_new_agent() {
    let Some(place) = Place::new() else { return };
    place.write_with("[serve]\nlisten = '0.0.0.0:0'\n", "");
    for more in [&["--dry-run"][..], &[]] {
        let refused = place.command(more).run().expect(2);
        assert!(refused.stderr.contains("token-file"), "{}", refused.stderr);
    }
    let path = place.folder.0.join("agent.sock");
    place.write_with(&format!("[serve]\nlisten = 'unix:{}'\n", path.display()), "");
    let running = place.start();
    wait_until("a socket", PATIENCE, || path.exists());
    let mode = fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut stream = poll(PATIENCE, || UnixStream::connect(&path).ok()).expect("ours");
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("a socket");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    place.write_with("[serve]\nlisten = ':0'\n", "");
    running.signal(Signal::SIGHUP);
    wait_until("the refusal", PATIENCE, || !events(&running.talk(), "not-reloaded").is_empty());
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    assert!(!path.exists());
}
