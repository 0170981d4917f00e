//! How long a server does not answer while a tool attaches and detaches, and what is left behind.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::peers::{
    attempt::attempt,
    book::Place,
    figure::Figure,
    kit::python_folder,
    part::Run,
    peer::Peer,
    session::Session,
    tool::{ALL, SAMPLED},
};
use crate::{
    compile::fixture,
    fingerprint::{Fingerprint, Scope, diff_within},
    real::{Probe, Server, installed, python, redis, server::listens},
};

const PART: &str = "stops";
/// How long a session lasts between attach and detach.
const SESSION: Duration = Duration::from_millis(300);
const KEYS: &str = "100000";
/// Each takes more than a second.
const ROUNDS: u32 = 6;
/// Attaching by a debugger takes seconds.
const DEBUGGER_ROUNDS: u32 = 3;

/// A server to attach to.
struct Target {
    server: Server,
    socket: PathBuf,
}

type Start = fn() -> Result<Target, String>;
const TARGETS: [(&str, Start); 2] =
    [("redis with 100,000 keys", of_redis), ("python3, a small server", of_python)];

/// Who attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Nobody,
    Heapattach(&'static [&'static str]),
    Heaptrack,
    Memray,
}

const TOOLS: [(&str, By); 5] = [
    ("nobody", By::Nobody),
    (SAMPLED, By::Heapattach(&[])),
    (ALL, By::Heapattach(&["--all"])),
    ("heaptrack -p", By::Heaptrack),
    ("memray attach", By::Memray),
];

pub(super) fn measure(run: &mut Run<'_>) {
    for (work, start) in TARGETS {
        if !run.options.wants_work(work) {
            continue;
        }
        eprintln!("stops: {work}");
        for round in 0..run.options.rounds.min(ROUNDS) {
            for (tool, by) in TOOLS {
                let has_debugger = matches!(by, By::Heaptrack | By::Memray);
                let is_too_dear = has_debugger && round >= DEBUGGER_ROUNDS;
                let is_other = by == By::Memray && !work.starts_with("python3");
                if is_too_dear || is_other {
                    continue;
                }
                let place = Place { part: PART, work, tool };
                if let Err(why) = attempt(|| once(run, start, by, place, round)) {
                    run.book.fail(place, &why);
                }
            }
        }
    }
}

fn of_redis() -> Result<Target, String> {
    let server = redis::start().map_err(|error| error.to_string())?;
    let socket = redis::socket(&server);
    let program = installed("redis-benchmark").ok_or("missing: redis-benchmark")?;
    let mut command = Command::new(program);
    command.arg("-s").arg(&socket);
    command.args(["-q", "-t", "set", "-n", KEYS, "-r", KEYS, "-d", "200", "-P", "16"]);
    crate::peers::kit::run(&mut command)?;
    Ok(Target { server, socket })
}

fn of_python() -> Result<Target, String> {
    let own = python_folder().join("bin/python");
    let program = if own.is_file() { own } else { python().ok_or("no python3 here")? };
    let directory = Server::directory("pings").map_err(|error| error.to_string())?;
    let socket = directory.join("socket");
    let mut command = Command::new(program);
    command.arg(fixture("python_pings.py")).arg(&socket).stdin(Stdio::null());
    let server = Server::start(command, directory, || listens(&socket));
    Ok(Target { server: server.map_err(|error| error.to_string())?, socket })
}

/// A server of its own each time: not all tools leave one usable.
fn once(
    run: &mut Run<'_>,
    start: Start,
    by: By,
    place: Place<'_>,
    round: u32,
) -> Result<(), String> {
    let target = start()?;
    let pid = target.server.pid();
    let probe = Probe::start(&target.socket);
    // The client's connection is part of what is compared.
    thread::sleep(SESSION / 3);
    let before = Fingerprint::of(pid).map_err(|error| error.to_string())?;
    let _ = probe.longest_gap();
    let began = Instant::now();
    let attached = match by {
        By::Nobody => Attached::Nobody,
        By::Heapattach(options) => Attached::Session(Session::open(pid, options)?),
        By::Heaptrack => Attached::Peer(Peer::heaptrack(&run.kit, pid)?),
        By::Memray => Attached::Memray(Peer::memray(&run.kit, pid)?),
    };
    let attach = began.elapsed();
    thread::sleep(SESSION);
    let mut note = |figure, value: Duration| {
        run.book.note(place, figure, round, value.as_secs_f64() * 1e3);
    };
    note(Figure::SILENCE_AT_ATTACH, probe.longest_gap());
    let began = Instant::now();
    if by != By::Nobody {
        note(Figure::ATTACH, attach);
    }
    match attached {
        Attached::Nobody => thread::sleep(SESSION),
        Attached::Session(session) => {
            let report = session.end()?;
            note(Figure::DETACH, began.elapsed());
            let stopped = |why| {
                Duration::from_secs_f64(
                    report.stopped_us(why).iter().fold(0.0, |a, &b| f64::max(a, b)) / 1e6,
                )
            };
            note(Figure::STOP_AT_ATTACH, stopped("attach"));
            note(Figure::STOP_AT_DETACH, stopped("detach"));
        }
        // Its script undoes nothing when interrupted where sh is dash: it is ended, and the library
        // stays.
        Attached::Peer(peer) => drop(peer),
        Attached::Memray(peer) => {
            detach_memray(run.kit.memray.as_ref()?, pid)?;
            note(Figure::DETACH, began.elapsed());
            drop(peer);
        }
    }
    thread::sleep(SESSION / 3);
    note(Figure::SILENCE_AT_DETACH, probe.longest_gap());
    if !probe.answers() {
        return Err("the server no longer answers".to_owned());
    }
    let after = Fingerprint::of(pid).map_err(|error| error.to_string())?;
    let left = diff_within(&before, &after, Scope::Loose);
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    run.book.note(place, Figure::LEFT, round, left.len() as f64);
    Ok(())
}

enum Attached {
    Nobody,
    Session(Session),
    Peer(Peer),
    Memray(Peer),
}

fn detach_memray(python: &Path, pid: i32) -> Result<(), String> {
    let mut command = Command::new(python);
    command.args(["-m", "memray", "detach", "--method", "gdb", &pid.to_string()]);
    crate::peers::kit::run(&mut command).map(|_| ())
}
