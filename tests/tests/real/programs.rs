//! Programs that people run, attached to under load: every request is answered, rightly.

use std::time::Duration;

use heapattach_tests::{
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, poll, wait_until},
    fingerprint::{Fingerprint, Scope, diff_within},
    fixture::Launch,
    hazard::{Hazard, cycles},
    real::{Load, Server, StartError, memcached, nginx, python, redis},
    report::Report,
    seed::{Random, seed},
    skip::skip,
};

/// Twice the cycles of a hazard.
fn attaches() -> u64 {
    2 * cycles()
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

/// One attach to a server at work.
fn cycle(name: &str, pid: i32, hooks: Hooks, window: Duration) -> Report {
    let outcome = Heapattach::attach(pid, window, hooks).run().expect(0);
    let report = outcome.report();
    assert_eq!((&*report.outcome, &*report.target), ("detached", "restored"), "{name}: {report:?}");
    assert!(report.left.is_empty(), "{name}: {:?}", report.left);
    report
}

/// Attaches to the processes in turn while the load runs; then nothing may be lost or left.
///
/// `calls` says whether the windows together must have counted calls.
fn attach_under_load(
    name: &str,
    server: &mut Server,
    pids: &[i32],
    load: impl Fn(&Server) -> Load,
    calls: bool,
) {
    let seed = seed();
    let mut random = Random::new(seed);
    // A server that has worked and is idle: the state to compare with.
    let warm = load(server);
    wait_for_answers(&warm);
    warm.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly before: {wrong}"));
    let before: Vec<_> = pids.iter().map(|&pid| settled(pid)).collect();

    let load = load(server);
    wait_for_answers(&load);
    let (mut counted, mut stopped) = (0, Vec::new());
    for turn in 0..attaches() {
        let turn = usize::try_from(turn).unwrap_or(0);
        let (round, pid) = (turn / pids.len(), pids[turn % pids.len()]);
        let hooks = if round.is_multiple_of(2) { Hooks::Auto } else { Hooks::Slots };
        let report = cycle(name, pid, hooks, Duration::from_millis(random.between(20, 150)));
        assert!(server.is_alive(), "{name} died in cycle {turn}");
        counted += report.calls();
        stopped.extend(report.stops.iter().map(|stop| stop.stopped_us));
        wait_for_answers(&load);
    }
    let asked = load.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly: {wrong}"));
    stopped.sort_by(f64::total_cmp);
    println!(
        "{name}: {} cycles, {counted} calls counted, {asked} requests answered, stopped {:.0} us \
         in the median, {:.0} at most, seed {seed}",
        attaches(),
        stopped.get(stopped.len() / 2).unwrap_or(&0.0),
        stopped.last().unwrap_or(&0.0)
    );
    assert!(!calls || counted > 0, "{name}: no calls counted");
    for (&pid, before) in pids.iter().zip(&before) {
        let trace = || diff_within(before, &settled(pid), Scope::Loose);
        // The last connections of the load may take a moment to be closed.
        let clean = poll(PATIENCE, || trace().is_empty().then_some(()));
        assert!(clean.is_some(), "{name} ({pid}) bears a trace:\n{}", trace().join("\n"));
    }
}

fn settled(pid: i32) -> Fingerprint {
    Fingerprint::of(pid).expect("a living process can be read")
}

fn wait_for_answers(load: &Load) {
    let then = load.answered();
    wait_until("answers", PATIENCE, || load.answered() > then);
}

#[test]
fn redis_answers_every_request() {
    let Some(mut server) = started(redis::start()) else { return };
    let pid = server.pid();
    attach_under_load("redis", &mut server, &[pid], redis::load, true);
}

#[test]
fn memcached_answers_every_request() {
    let Some(mut server) = started(memcached::start()) else { return };
    let pid = server.pid();
    attach_under_load("memcached", &mut server, &[pid], memcached::load, true);
}

#[test]
fn nginx_workers_answer_every_request() {
    let Some(mut server) = started(nginx::start()) else { return };
    let workers = server.children();
    assert!(!workers.is_empty(), "nginx has no workers");
    attach_under_load("nginx workers", &mut server, &workers, nginx::load, true);
}

#[test]
fn an_nginx_master_and_its_workers_live_on() {
    let Some(mut server) = started(nginx::start()) else { return };
    let (master, workers) = (server.pid(), server.children());
    // The master sleeps in sigsuspend: it calls nothing.
    attach_under_load("nginx master", &mut server, &[master], nginx::load, false);
    assert_eq!(server.children(), workers, "the workers were replaced");
}

#[test]
fn python_computes_what_it_should() {
    let Some(python) = python() else {
        return skip("no python3 here", "apt-get install python3");
    };
    let script = heapattach_tests::compile::fixture("python_load.py");
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let launch = Launch::program(&python).arg(&script).env("PYTHONMALLOC", "malloc");
        Hazard::new("python3", launch.start(), hooks).loose().run();
    }
}

#[test]
fn a_rust_program_computes_what_it_should() {
    for hooks in [Hooks::Auto, Hooks::Slots] {
        let Some(launch) = Launch::new("rust_load.rs") else { return };
        Hazard::new("a Rust program", launch.start(), hooks).loose().run();
    }
}
