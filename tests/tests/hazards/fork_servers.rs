//! Servers that fork a child for each request: a child goes on with what its parent's session has,
//! in a region of its own, and nothing that happens to one of them harms another.

use std::{collections::BTreeSet, fs, ops::Range, path::Path};

use heapattach_injector::detach::leftovers::look;
use heapattach_tests::{
    Folder,
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks, Running},
    compile::Source,
    deadline::{PATIENCE, poll, wait_until},
    fixture::{Fixture, Launch},
    hold::Hold,
    measure::rank,
    page::Word,
    real,
    report::Report,
    sample::points,
    seed::{Random, seed},
    trace::Before,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const MODULES: u64 = 100;
/// What a child of the fixture calls by its own code: each of its blocks, and what it inherited.
const BLOCKS: u64 = 200;
const INHERITED: u64 = 64;

const SERVE: u64 = 1;
const STAY: u64 = 2;
const KILL: u64 = 3;

/// A server with so many modules.
fn server(folder: &Folder, modules: u64) -> Option<Fixture> {
    let plugin = Source::new("loop_plugin.c").build()?;
    let launch = Launch::new("fork_server.c")?;
    Some(launch.arg(plugin).arg(modules.to_string()).arg(&folder.0).start())
}

fn command(fixture: &Fixture, hooks: Hooks, folder: &Path) -> Heapattach {
    let command = Attached::command(fixture.pid(), hooks).arg("--follow-forks").folder(folder);
    command.arg("--max-processes=4000").arg("--no-record")
}

/// Every call is told, of all of them.
fn exact(command: Heapattach) -> Heapattach {
    command.arg("--all").arg("--on-full=wait").arg("--hide-frames=none")
}

fn children(report: &Report) -> impl Iterator<Item = &Report> {
    report.processes.iter().filter(|one| one.parent == report.pid)
}

fn every_call_of_every_child_is_counted(hooks: Hooks) {
    let folder = Folder::new(&format!("fork-server-{}", hooks.name()));
    let Some(mut fixture) = server(&folder, 20) else { return };
    let before = Before::of(&mut fixture);
    let session = Attached::start(exact(command(&fixture, hooks, &folder.0)), &mut fixture);
    fixture.step(SERVE, 10);
    let report = session.end();
    let own: Vec<&Report> = children(&report).collect();
    assert_eq!(own.len(), 10);
    for one in own {
        assert!(one.error.is_none() && one.left.is_empty() && one.is_complete(), "{one:?}");
        assert_eq!((&*one.outcome, one.calls_of("malloc")), ("exited", BLOCKS));
        let freed = one.calls_of("free");
        assert_eq!((one.calls_of("realloc"), freed), (BLOCKS, BLOCKS + INHERITED));
    }
    before.assert_equal(&mut fixture, "after its children were followed");
    fixture.finish();
}

#[test]
fn every_call_of_every_child_is_counted_by_entries() {
    every_call_of_every_child_is_counted(Hooks::Auto);
}

#[test]
fn every_call_of_every_child_is_counted_by_slots() {
    every_call_of_every_child_is_counted(Hooks::Slots);
}

/// The calls of the engine in a session with so many forks.
fn engine_calls(forks: u64) -> Option<u64> {
    let folder = Folder::new(&format!("fork-calls-{forks}"));
    let mut fixture = server(&folder, MODULES)?;
    let counted = command(&fixture, Hooks::Auto, &folder.0).fault("count");
    let session = Attached::start(counted, &mut fixture);
    fixture.step(SERVE, forks);
    let command = session.into_command();
    command.signal(Signal::SIGINT);
    let outcome = command.wait().expect(INTERRUPTED);
    fixture.finish();
    let said = outcome.stderr.lines().find_map(|line| {
        let counted = line.strip_prefix("heapattach: faults: ")?.strip_suffix(" calls")?;
        counted.parse().ok()
    });
    Some(said.unwrap_or_else(|| panic!("no count: {}", outcome.stderr)))
}

/// Requests and writes, which a busy machine makes no more of: what it takes does not depend on how
/// many modules there are, for nothing of them is looked for or changed.
#[test]
fn a_fork_takes_few_requests_and_writes() {
    const FORKS: u64 = 20;
    let Some(none) = engine_calls(0) else { return };
    let Some(some) = engine_calls(FORKS) else { return };
    let each = some.saturating_sub(none) / FORKS;
    println!("{none} calls without forks, {some} with {FORKS}: {each} a fork");
    assert!((10..=80).contains(&each), "{each} calls of the engine a fork");
}

/// The report of a session in which so many children were forked, and how long the server took for each.
fn session_of_forks(forks: u64) -> Option<(Report, f64)> {
    let folder = Folder::new(&format!("fork-figures-{forks}"));
    let mut fixture = server(&folder, MODULES)?;
    let command = command(&fixture, Hooks::Auto, &folder.0).arg("--no-mmap");
    let session = Attached::start(command, &mut fixture);
    #[allow(clippy::cast_precision_loss)]
    let took_ms = fixture.step(SERVE, forks) as f64 / 1e3 / forks.max(1) as f64;
    let report = session.end();
    fixture.finish();
    Some((report, took_ms))
}

/// Processor time and stops of forks: `cargo test --release --workspace --test hazards -- --ignored
/// --nocapture what_a_fork`, on a machine that does nothing else.
#[test]
#[ignore = "a measurement: it asserts nothing that a busy machine would not change"]
#[allow(clippy::cast_precision_loss)]
fn what_a_fork_takes() {
    const FORKS: u64 = 200;
    let mut each = Vec::new();
    for _ in 0..3 {
        let Some((none, _)) = session_of_forks(0) else { return };
        let Some((some, took_ms)) = session_of_forks(FORKS) else { return };
        let cpu_us = some.expense.cpu_us.saturating_sub(none.expense.cpu_us);
        each.push(cpu_us as f64 / 1e3 / FORKS as f64);
        let own: Vec<&Report> = children(&some).collect();
        assert_eq!(own.len() as u64, FORKS);
        let stops: Vec<f64> = own
            .iter()
            .map(|one| one.stops.iter().map(|s| s.stopped_us).sum::<f64>() / 1e3)
            .collect();
        let parents: Vec<f64> = some.stopped_us("fork");
        println!(
            "{MODULES} modules, {FORKS} forks: {:.2} ms of processor time a fork (goal 3); a child was \
             stopped for {:.2} ms in the median, {:.2} at p99, {:.2} at most (goal 5); from fork to end \
             {took_ms:.2} ms; the parent was stopped {} times for it",
            each.last().unwrap_or(&0.0),
            rank(&stops, 500),
            rank(&stops, 990),
            rank(&stops, 1000),
            parents.len()
        );
    }
    println!("{:.2} ms of processor time a fork in the median", rank(&each, 500));
}

/// The files of shared memory that a process has mapped, in the order of their addresses.
fn regions(pid: i32) -> Vec<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let shared = maps.lines().filter(|line| line.contains("/memfd:heapattach"));
    shared.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect()
}

fn inodes(regions: &[u64]) -> BTreeSet<u64> {
    regions.iter().copied().collect()
}

/// The session that the home of a process names, and the process that holds its lock.
fn session_of(pid: i32) -> (u64, Option<i32>) {
    let found = look(pid).expect("a session is on it");
    let [(home, owner)] = &found.homes[..] else { panic!("{pid}: {:?}", found.homes) };
    (home.header().session, *owner)
}

#[test]
fn a_child_has_rings_of_its_own_and_its_parents_tables() {
    let folder = Folder::new("fork-regions");
    let Some(mut fixture) = server(&folder, 3) else { return };
    let before = Before::of(&mut fixture);
    let session = Attached::start(command(&fixture, Hooks::Auto, &folder.0), &mut fixture);
    let child = i32::try_from(fixture.step(STAY, 0)).expect("a pid");
    wait_until("a region of its own", PATIENCE, || regions(child).len() == 3);
    let (own, parents) = (regions(child), regions(fixture.pid()));
    assert_eq!(inodes(&parents).len(), 1, "{parents:?}");
    // Rings first, then the tables, then room for more of its own.
    assert!(
        own[0] != parents[0] && own[1] == parents[0] && own[2] == own[0],
        "{own:?} {parents:?}"
    );
    let (of_child, by) = session_of(child);
    let (of_parent, by_same) = session_of(fixture.pid());
    assert!(of_child != of_parent, "the child's header names its parent's session, {of_child}");
    let tracer = Some(session.tracer().as_raw());
    assert_eq!((by, by_same), (tracer, tracer), "each is believed: its lock is held");
    let goal = fixture.page().get(Word::Seen) + 20;
    fixture.wait_for("the child to go on", |f| f.page().get(Word::Seen) >= goal);
    let report = session.end();
    let one = children(&report).find(|one| one.pid == child).expect("it was followed");
    assert!(one.calls_of("malloc") >= 20 * BLOCKS, "{one:?}");
    assert_eq!((&*one.outcome, &*one.target), ("detached", "restored"), "{one:?}");
    wait_until("nothing of ours in the child", PATIENCE, || regions(child).is_empty());
    before.assert_equal(&mut fixture, "after a child was followed");
    fixture.finish();
}

#[test]
fn children_that_are_killed_at_any_time_harm_nobody() {
    let folder = Folder::new("fork-killed");
    let Some(mut fixture) = server(&folder, 20) else { return };
    let before = Before::of(&mut fixture);
    let session = Attached::start(command(&fixture, Hooks::Auto, &folder.0), &mut fixture);
    fixture.step(KILL, 60);
    fixture.step(SERVE, 5);
    let report = session.end();
    // Some are gone before anything can be told of them.
    let (all, whole) = (children(&report), children(&report).filter(|one| one.error.is_none()));
    let [all, whole] = [all.count(), whole.filter(|one| one.calls_of("malloc") == BLOCKS).count()];
    println!("{all} children told of, {whole} to their own end");
    assert!((5..=all).contains(&whole) && all <= 65, "{all}, {whole}");
    before.assert_equal(&mut fixture, "after children were killed");
    fixture.finish();
}

#[test]
fn children_of_a_parent_that_is_killed_are_followed_to_their_own_end() {
    let folder = Folder::new("fork-orphan");
    let Some(mut fixture) = server(&folder, 20) else { return };
    let session = Attached::start(command(&fixture, Hooks::Auto, &folder.0), &mut fixture);
    let child = i32::try_from(fixture.step(STAY, 0)).expect("a pid");
    let command = session.into_command();
    let seen = |fixture: &Fixture| fixture.page().get(Word::Seen);
    // A new child is stopped until it is taken in; one whose parent ends before that may be missed.
    let goal = seen(&fixture) + 50;
    wait_until("the child to be followed", PATIENCE, || seen(&fixture) >= goal);
    kill(Pid::from_raw(fixture.pid()), Signal::SIGKILL).expect("it runs");
    let goal = seen(&fixture) + 200;
    wait_until("the orphan to go on", PATIENCE, || seen(&fixture) >= goal);
    fixture.page().set(Word::Stop, 1);
    // It ends when no process is left.
    let outcome = command.wait();
    let report = outcome.report();
    let one = report.family().into_iter().find(|one| one.pid == child);
    let one = one.unwrap_or_else(|| panic!("the orphan is not told of: {report:?}"));
    assert!(one.error.is_none() && one.left.is_empty(), "{one:?}");
    assert_eq!(one.outcome, "exited", "{one:?}");
    assert_eq!(fixture.page().get(Word::Errors), 0, "{}", fixture.output());
}

/// The numbers of the engine's calls from the first fork on, in a session with so many, all of which
/// have ended.
fn calls_of_forks(forks: u64) -> Option<Range<u64>> {
    let folder = Folder::new("fork-trace");
    let mut fixture = server(&folder, 3)?;
    let command = command(&fixture, Hooks::Auto, &folder.0).fault("trace");
    let command = Attached::start(command, &mut fixture).into_command();
    let made = |talk: &str| talk.lines().filter(|line| line.contains("faults: call ")).count();
    let first = made(&command.talk());
    fixture.step(SERVE, forks);
    let last = made(&command.talk());
    command.signal(Signal::SIGINT);
    command.wait().expect(INTERRUPTED);
    fixture.finish();
    Some(first as u64 + 1..last as u64 + 1)
}

#[test]
fn parent_and_children_outlive_the_tracer_at_every_step() {
    let Some(calls) = calls_of_forks(2) else { return };
    assert!(calls.end - calls.start >= 20, "hardly anything was done: {calls:?}");
    let (seed, mut tried, mut hit) = (seed(), 0, 0);
    for point in points(calls.end - calls.start, 60, &mut Random::new(seed)) {
        let folder = Folder::new("fork-tracer");
        let Some(mut fixture) = server(&folder, 3) else { return };
        let before = Before::of(&mut fixture);
        let fault = format!("kill:{}", calls.start + point - 1);
        let command = command(&fixture, Hooks::Auto, &folder.0).fault(&fault);
        let command = Attached::start(command, &mut fixture).into_command();
        // Each child must come to its own end, and says whether it could work.
        fixture.step(SERVE, 3);
        command.signal(Signal::SIGINT);
        hit += u32::from(command.wait().code() != Some(INTERRUPTED));
        tried += 1;
        fixture.step(SERVE, 2);
        Heapattach::detach(fixture.pid()).run().expect(0);
        before.assert_equal(&mut fixture, &format!("after {fault} and a detach, seed {seed}"));
        fixture.finish();
    }
    println!("tracer killed {hit} times of {tried}, at calls {calls:?}, seed {seed}");
    assert!(hit * 2 >= tried, "killed {hit} times of {tried} only");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Parent,
    Child,
}

/// A session held at a call of the take-over of a child, and the child; `None` if it never came there.
fn held_at(call: u64, fixture: &mut Fixture, hold: &Hold) -> (Running, i32, bool) {
    let folder = hold.folder();
    let command = command(fixture, Hooks::Auto, &folder).fault(&format!("hold:{call}"));
    let mut session = hold.start(command);
    wait_until("the attach", PATIENCE, || Attached::is_told(&session.talk()));
    let seen = fixture.page().get(Word::Seen);
    fixture.begin_step(STAY, 0);
    // Calls differ by a few from session to session: some come to it only later, or not at all.
    let held = poll(PATIENCE, || {
        let is_held = session.talk().contains("held at call");
        let is_over = !session.is_running() || fixture.page().get(Word::Seen) > seen + 20;
        (is_held || is_over).then_some(is_held)
    });
    let child = poll(PATIENCE, || real::children(fixture.pid()).first().copied());
    (session, child.expect("it has forked"), held.expect("neither held nor through"))
}

fn killed_while_a_child_is_taken_over(victim: Victim) {
    let Some(calls) = calls_of_forks(1) else { return };
    let (seed, mut tried, mut hit) = (seed(), 0, 0);
    for point in points(calls.end - calls.start, 12, &mut Random::new(seed)) {
        let (folder, hold) = (Folder::new("fork-held"), Hold::at(&["call"]));
        let Some(mut fixture) = server(&folder, 3) else { return };
        let before = Before::of(&mut fixture);
        let call = calls.start + point - 1;
        let (session, child, is_held) = held_at(call, &mut fixture, &hold);
        (tried, hit) = (tried + 1, hit + u32::from(is_held));
        let when = format!("{victim:?} killed at call {call}, seed {seed}");
        let pid = if victim == Victim::Parent { fixture.pid() } else { child };
        kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
        hold.let_go("call");
        match victim {
            Victim::Parent => {
                let goal = fixture.page().get(Word::Seen) + 50;
                let goes_on = || fixture.page().get(Word::Seen) >= goal;
                wait_until(&format!("the child to go on ({when})"), PATIENCE, goes_on);
                fixture.page().set(Word::Stop, 1);
                // It ends when no process is left.
                let outcome = session.wait();
                assert!(!outcome.stderr.contains("panicked"), "{when}: {}", outcome.stderr);
                assert_eq!(fixture.page().get(Word::Errors), 0, "{when}: {}", fixture.output());
            }
            Victim::Child => {
                fixture.end_step();
                fixture.step(SERVE, 2);
                session.signal(Signal::SIGINT);
                let report = session.wait().expect(INTERRUPTED).report();
                assert!(report.left.is_empty(), "{when}: {report:?}");
                before.assert_equal(&mut fixture, &when);
                fixture.finish();
            }
        }
    }
    println!("{victim:?} killed {hit} times of {tried} while the tracer was held at {calls:?}");
    assert!(hit * 2 >= tried, "held {hit} times of {tried} only");
}

#[test]
fn children_outlive_a_parent_that_is_killed_while_they_are_taken_over() {
    killed_while_a_child_is_taken_over(Victim::Parent);
}

#[test]
fn a_parent_outlives_a_child_that_is_killed_while_it_is_taken_over() {
    killed_while_a_child_is_taken_over(Victim::Child);
}
