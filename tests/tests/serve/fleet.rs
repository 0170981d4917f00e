//! A server of several processes: each has a session in a process of its own, forked from one that all of them share,
//! and what becomes of one is no matter of the others.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use heapattach_tests::{
    command::{Heapattach, Running},
    deadline::{PATIENCE, wait_until},
    fixture::{Fixture, Launch},
    real::children,
    task::slept,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{ends::is_touched, server::address};

/// Several processes and their server.
struct Fleet {
    fixtures: Vec<Fixture>,
    running: Running,
}

impl Fleet {
    /// `None` without a compiler.
    fn start(count: usize) -> Option<Self> {
        let fixtures: Option<Vec<_>> =
            (0..count).map(|_| Some(Launch::new("holds.c")?.start())).collect();
        let fixtures = fixtures?;
        let running = serve(&fixtures, &["--every", "1"]);
        let this = Self { fixtures, running };
        this.fixtures.iter().for_each(|one| {
            wait_until("a session", PATIENCE, || is_touched(one.pid()));
        });
        Some(this)
    }

    /// The process that all sessions are forked from.
    fn fork_server(&self) -> i32 {
        let all = children(self.running.pid());
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    /// The sessions, in the order of the fixtures.
    fn sessions(&self) -> Vec<i32> {
        let mut all = children(self.fork_server());
        all.sort_unstable();
        all
    }
}

fn serve(fixtures: &[Fixture], more: &[&str]) -> Running {
    let mut command = Heapattach::new(["serve", "--listen", ":0"]).limit(20 * PATIENCE);
    for fixture in fixtures {
        command = command.arg("-p").arg(fixture.pid().to_string());
    }
    for word in more {
        command = command.arg(*word);
    }
    let running = command.start();
    address(&running);
    running
}

fn end_by_force(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
}

#[test]
fn each_target_has_one_process_and_what_kills_one_leaves_the_others() {
    let Some(mut fleet) = Fleet::start(3) else { return };
    let sessions = fleet.sessions();
    assert_eq!(sessions.len(), 3, "{sessions:?}");
    assert!(sessions.iter().all(|one| children(*one).is_empty()));
    end_by_force(sessions[0]);
    wait_until("the news", PATIENCE, || fleet.running.talk().contains("has ended"));
    let first = fleet.fixtures[0].pid();
    assert!(fleet.running.talk().contains(&format!("the session of process {first} has ended")));
    for one in &mut fleet.fixtures[1..] {
        assert!(is_touched(one.pid()));
        one.step(1, 10);
    }
    // What was killed has left its hooks, which pass everything through.
    fleet.fixtures[0].step(1, 10);
    Heapattach::detach(first).run().expect(0);
    fleet.running.signal(Signal::SIGTERM);
    fleet.running.wait().expect(7);
    for mut one in fleet.fixtures {
        assert!(!is_touched(one.pid()));
        one.step(1, 10);
        one.finish();
    }
}

#[test]
fn sessions_detach_when_the_process_that_they_are_forked_from_is_killed() {
    let Some(fleet) = Fleet::start(3) else { return };
    end_by_force(fleet.fork_server());
    // Nothing is left to serve, and how the sessions end is not known.
    fleet.running.wait().expect(7);
    for mut one in fleet.fixtures {
        wait_until("the detach", PATIENCE, || !is_touched(one.pid()));
        one.step(1, 10);
        one.finish();
    }
}

#[test]
fn sessions_detach_when_their_server_is_killed() {
    let Some(fleet) = Fleet::start(3) else { return };
    fleet.running.signal(Signal::SIGKILL);
    assert_eq!(fleet.running.wait().signal(), Some(9));
    for mut one in fleet.fixtures {
        wait_until("the detach", PATIENCE, || !is_touched(one.pid()));
        one.step(1, 10);
        one.finish();
    }
}

/// The server of sessions has the group of no terminal, and hears no signal that a service manager sends to all.
#[test]
fn signals_for_all_processes_of_a_service_end_its_sessions_once() {
    let Some(fleet) = Fleet::start(2) else { return };
    let all: Vec<i32> = fleet.sessions().into_iter().chain([fleet.fork_server()]).collect();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        all.iter().for_each(|one| kill(Pid::from_raw(*one), signal).expect("it is there"));
    }
    assert_eq!(fleet.sessions().len(), 2);
    fleet.running.signal(Signal::SIGTERM);
    fleet.running.wait().expect(0);
    for mut one in fleet.fixtures {
        assert!(!is_touched(one.pid()));
        one.step(1, 10);
        one.finish();
    }
}

/// At any moment of its beginning, too: a target that was not stopped yet never is.
#[test]
fn told_to_end_while_it_begins_it_leaves_nothing() {
    for round in 0..8 {
        let fixtures: Option<Vec<_>> =
            (0..2).map(|_| Some(Launch::new("holds.c")?.start())).collect();
        let Some(fixtures) = fixtures else { return };
        let running = serve(&fixtures, &["--every", "1"]);
        thread::sleep(Duration::from_millis(round * 10));
        running.signal(Signal::SIGTERM);
        running.wait().expect(0);
        for mut one in fixtures {
            assert!(!is_touched(one.pid()));
            one.step(1, 10);
            one.finish();
        }
    }
}

/// What a process and all below it take.
#[derive(Clone, Copy, Default, Debug)]
struct Taken {
    processes: usize,
    /// Proportional shares, in KiB.
    pss: u64,
    slept: u64,
    /// Processor time in nanoseconds.
    nanos: u64,
}

impl Taken {
    fn by(pid: i32) -> Self {
        let own = Self { processes: 1, pss: pss(pid), slept: slept(pid), nanos: nanos(pid) };
        children(pid).into_iter().map(Self::by).fold(own, |all, one| Self {
            processes: all.processes + one.processes,
            pss: all.pss + one.pss,
            slept: all.slept + one.slept,
            nanos: all.nanos + one.nanos,
        })
    }
}

fn pss(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

fn nanos(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("schedstat")).ok();
    let first = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    tasks.filter_map(of).filter_map(first).sum()
}

/// `HEAPATTACH_TARGETS=python3` has interpreters in the place of small C programs; another version of heapattach is
/// measured with `HEAPATTACH_UNDER_TEST`.
///
/// ```text
/// cargo test --release -p heapattach-tests --test serve -- --ignored --nocapture fleet::a_hundred
/// ```
#[test]
#[ignore = "a benchmark: it tells figures and judges none; three minutes"]
fn a_hundred_idle_and_ten_busy_targets() {
    const IDLE: usize = 100;
    const BUSY: usize = 10;
    const TIME: Duration = Duration::from_secs(30);
    let has_compiler = Launch::new("burst.c").is_some();
    assert!(has_compiler, "no compiler for the targets");
    let launch = || Launch::new("burst.c").expect("it was there").start();
    let idle: Vec<Fixture> = (0..IDLE).map(|_| launch()).collect();
    let told = |what: &str, pid: i32, targets: usize| {
        let (before, began) = (Taken::by(pid), Instant::now());
        thread::sleep(TIME);
        let (after, took) = (Taken::by(pid), began.elapsed().as_secs_f64());
        #[allow(clippy::cast_precision_loss)]
        let rate = |of: fn(&Taken) -> u64| (of(&after).saturating_sub(of(&before))) as f64 / took;
        #[allow(clippy::cast_precision_loss)]
        let (all, each) = (after.pss as f64 / 1024.0, targets.max(1) as f64);
        println!(
            "{what}: {targets} targets, {} processes, {all:.1} MiB PSS ({:.2} each), {:.2} wakings a second each, \
             {:.4} % of a core each",
            after.processes,
            all / each,
            rate(|taken| taken.slept) / each,
            rate(|taken| taken.nanos) / 1e7 / each,
        );
        after.pss
    };
    let one = serve(&idle[..1], &[]);
    wait_until("a session", PATIENCE, || is_touched(idle[0].pid()));
    thread::sleep(Duration::from_secs(5));
    let first = told("one", one.pid(), 1);
    one.signal(Signal::SIGTERM);
    one.wait().expect(0);
    let all = serve(&idle, &[]);
    idle.iter().for_each(|one| {
        wait_until("a session", 10 * PATIENCE, || is_touched(one.pid()));
    });
    thread::sleep(Duration::from_secs(80));
    let hundred = told("after a minute", all.pid(), IDLE);
    #[allow(clippy::cast_precision_loss)]
    let further = (hundred.saturating_sub(first)) as f64 / 1024.0 / (IDLE - 1) as f64;
    println!("a further target: {further:.2} MiB PSS");
    all.signal(Signal::SIGTERM);
    all.wait().expect(0);
    let mut busy: Vec<Fixture> = (0..BUSY).map(|_| launch()).collect();
    let running = serve(&busy, &["--every", "4KiB"]);
    busy.iter().for_each(|one| {
        wait_until("a session", 10 * PATIENCE, || is_touched(one.pid()));
    });
    let (before, began) = (Taken::by(running.pid()), Instant::now());
    let mut blocks = 0;
    while began.elapsed() < TIME {
        // Some ten thousand blocks of 8 KiB a second and target.
        busy.iter_mut().for_each(|one| {
            one.step(1, 100);
        });
        blocks += 100 * BUSY;
        thread::sleep(Duration::from_millis(10));
    }
    let after = Taken::by(running.pid());
    #[allow(clippy::cast_precision_loss)]
    let nanos = (after.nanos - before.nanos) as f64;
    #[allow(clippy::cast_precision_loss)]
    let blocks = blocks as f64;
    println!(
        "busy: {BUSY} targets, {:.1} MiB PSS, {:.0} ns of a core each sampled block of {blocks}",
        after.pss as f64 / 1024.0,
        nanos / blocks,
    );
    running.signal(Signal::SIGTERM);
    running.wait().expect(0);
    idle.into_iter().chain(busy).for_each(|one| {
        one.finish();
    });
}
