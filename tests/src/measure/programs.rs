//! What a session as people start it (a sample every 512 KiB) costs programs that do their work: the
//! processor time of the same work by the same process, attached to and not, in turns.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::Serialize;

use super::{Rounds, Spread};
use crate::{
    attached::Attached,
    command::Hooks,
    real::{Server, StartError, installed, redis},
    skip::skip,
};

/// What a session costs one program.
#[derive(Debug, Serialize)]
pub struct ProgramCost {
    /// Which program, doing what.
    pub program: &'static str,
    /// Processor time of the work without a session, in ms.
    pub plain_ms: Spread,
    /// Processor time with one, in percent of that without in the same round.
    pub percent: Spread,
    /// Calls counted in all sessions.
    pub calls: u64,
}

/// Requests of one round.
const REQUESTS: &str = "100000";
/// How often sqlite3 does the following in one round.
const REPEATS: u32 = 16;
/// Rows, strings and an index, made and dropped: all of it by malloc and free.
const SQL: &str = "\
    CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INT); \
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000) \
    INSERT INTO t SELECT i, printf('row %d %x', i, i * 7919), i % 1000 FROM n; \
    CREATE INDEX v ON t(value); \
    SELECT sum(length(upper(name) || value)) FROM t; \
    SELECT count(*) FROM (SELECT value, group_concat(name) FROM t GROUP BY value); \
    DROP TABLE t; SELECT 'done';";

pub(super) fn measure(rounds: Rounds) -> Vec<ProgramCost> {
    [of_redis(rounds), of_sqlite(rounds)].into_iter().flatten().collect()
}

fn of_redis(rounds: Rounds) -> Option<ProgramCost> {
    let server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => {
            skip("no redis here", cure);
            return None;
        }
        Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
    };
    let socket = redis::socket(&server);
    let pid = Server::pid(&server);
    Some(in_turns("redis-server, 100,000 sets and gets", pid, rounds, || benchmark(&socket)))
}

fn benchmark(socket: &Path) {
    let program = installed("redis-benchmark").expect("it was a moment ago");
    let mut command = Command::new(program);
    command.arg("-s").arg(socket).args(["-q", "-t", "set,get", "-n", REQUESTS, "-r", "10000"]);
    command.args(["-d", "200"]).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().is_ok_and(|status| status.success()), "redis-benchmark failed");
}

fn of_sqlite(rounds: Rounds) -> Option<ProgramCost> {
    let Some(program) = installed("sqlite3") else {
        skip("no sqlite3 here", "apt-get install sqlite3");
        return None;
    };
    let mut shell = Shell::start(&program);
    let pid = i32::try_from(shell.child.id()).expect("a pid");
    Some(in_turns("sqlite3, 16 times 40,000 rows and an index", pid, rounds, || shell.work()))
}

/// An interactive sqlite3 that is fed from here.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.arg(":memory:").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sqlite3 starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, input, output }
    }

    fn work(&mut self) {
        (0..REPEATS).for_each(|_| self.work_once());
    }

    fn work_once(&mut self) {
        writeln!(self.input, "{SQL}").expect("sqlite3 reads");
        let mut line = String::new();
        while line.trim_end() != "done" {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("text"), 0, "sqlite3 ended");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The same work without and with a session, again and again.
fn in_turns(
    program: &'static str,
    pid: i32,
    rounds: Rounds,
    mut work: impl FnMut(),
) -> ProgramCost {
    // The first times are of another kind: the heap grows.
    (0..3).for_each(|_| work());
    let (mut plain, mut percent, mut calls) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds.0 {
        let mut timed = || {
            let began = processor_ms(pid);
            work();
            processor_ms(pid) - began
        };
        let mut attached = |timed: &mut dyn FnMut() -> f64| {
            let session = Attached::open(Attached::command(pid, Hooks::Auto));
            let session = session.unwrap_or_else(|why| panic!("{program}: {why}"));
            let time = timed();
            calls += session.end().calls();
            time
        };
        // Whoever goes second finds the caches warmer.
        let (without, with) = if round % 2 == 0 {
            let without = timed();
            (without, attached(&mut timed))
        } else {
            let with = attached(&mut timed);
            (timed(), with)
        };
        plain.push(without);
        percent.push(100.0 * with / without);
    }
    assert!(calls > 0, "{program}: nothing was counted");
    ProgramCost { program, plain_ms: Spread::of(plain), percent: Spread::of(percent), calls }
}

/// Processor time of all threads of a process so far.
fn processor_ms(pid: i32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("the program lives");
    let of_task = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    };
    tasks.filter_map(of_task).sum::<f64>() / 1e6
}
