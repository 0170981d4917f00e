//! A leak put into programs that people run: its place comes first in the report.

use std::{path::PathBuf, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    real::{Load, Server, StartError, memcached, nginx, redis},
    report::Report,
    skip::skip,
};

/// Long enough to leak ten megabytes.
const WINDOW: Duration = Duration::from_millis(1500);
/// What a server grows to hold anyway it holds after so many answers.
const WARM: u64 = 12_000;

fn library() -> Option<PathBuf> {
    Source::new("known_leak.c").build()
}

fn preload(library: PathBuf) -> Option<(&'static str, PathBuf)> {
    Some(("LD_PRELOAD", library))
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

fn assert_found(name: &str, pid: i32, hooks: Hooks) {
    let attach = Heapattach::attach(pid, WINDOW, hooks).arg("--every=64KiB");
    let report: Report = attach.run().expect(0).report();
    let first = report.heap.sites.first().unwrap_or_else(|| panic!("{name}: no site: {report:#?}"));
    assert!(first.place.contains("known_leak"), "{name}: first is {first:#?}");
    let held = first.live.bytes;
    println!("{name}: {} holds {} to {} bytes", first.place, held.low, held.high);
    assert!(held.low > 0.0 && held.low < held.value && held.value < held.high, "{held:?}");
}

fn leaks_under_load(
    name: &str,
    server: Option<Server>,
    pid: impl Fn(&Server) -> i32,
    load: impl Fn(&Server) -> Load,
) {
    let Some(server) = server else { return };
    let load = load(&server);
    wait_until("the server to warm up", PATIENCE, || load.answered() >= WARM);
    for hooks in [Hooks::Auto, Hooks::Slots] {
        assert_found(name, pid(&server), hooks);
    }
    load.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly: {wrong}"));
}

#[test]
fn in_redis() {
    let Some(library) = library() else { return };
    leaks_under_load(
        "redis",
        started(redis::start_with(preload(library))),
        Server::pid,
        redis::load,
    );
}

#[test]
fn in_memcached() {
    let Some(library) = library() else { return };
    let server = started(memcached::start_with(preload(library)));
    leaks_under_load("memcached", server, Server::pid, memcached::load);
}

#[test]
fn in_an_nginx_worker() {
    let Some(library) = library() else { return };
    let server = started(nginx::start_with(preload(library)));
    let worker = |server: &Server| *server.children().first().expect("nginx has workers");
    leaks_under_load("nginx", server, worker, nginx::load);
}

#[test]
fn in_a_rust_program() {
    let Some(library) = library() else { return };
    let Some(launch) = Launch::new("rust_load.rs") else { return };
    let fixture = launch.env("LD_PRELOAD", &library).start();
    for hooks in [Hooks::Auto, Hooks::Slots] {
        assert_found("a Rust program", fixture.pid(), hooks);
    }
    fixture.finish();
}

#[test]
fn in_python() {
    let python = heapattach_tests::real::python();
    let Some(python) = python else { return skip("no python3 here", "apt-get install python3") };
    let Some(library) = library() else { return };
    let script = heapattach_tests::compile::fixture("python_load.py");
    let launch = Launch::program(&python).arg(&script).env("LD_PRELOAD", &library);
    let fixture = launch.env("PYTHONMALLOC", "malloc").start();
    for hooks in [Hooks::Auto, Hooks::Slots] {
        assert_found("python3", fixture.pid(), hooks);
    }
    fixture.finish();
}
