//! `heapattach check` on programs that people run: nothing that they can reach is called a leak.

use std::{fs, path::Path, time::Duration};

use heapattach_tests::{
    check::{self, Result},
    deadline::{PATIENCE, wait_until},
    real::{Load, Server, StartError, installed, memcached, nginx, python, redis},
    sample::is_soak,
    skip::skip,
};

/// So many answers a server gives before it is checked, and while it is.
const WARM: u64 = 3000;
/// How often a check may be in doubt before that is a fault.
const TRIES: u32 = 4;

fn assert_nothing_lost(name: &str, result: &Result) {
    let lost = [result.sum("direct"), result.sum("indirect")];
    let findings = &result.check()["findings"];
    assert_eq!(lost, [(0, 0); 2], "{name}: {findings:#}");
    if result.check()["older"].is_object() {
        let older = &result.check()["older"];
        println!("{name}: older: {older}");
        let lost = [&older["direct"]["blocks"], &older["indirect"]["blocks"]];
        assert_eq!(lost, [0, 0], "{name}: leaked before the attach: {older:#}");
    }
    let doubts = &result.check()["doubts"];
    assert_eq!(doubts.as_array().map(Vec::len), Some(0), "{name}: {doubts}");
    let (reachable, possible) = (result.sum("reachable"), result.sum("possible"));
    println!("{name}: {reachable:?} reachable, {possible:?} possible, none lost");
    assert!(result.check()["look"]["words"].as_u64() > Some(0), "{name} was not looked at");
}

/// Checks a program from its start to its end.
fn runs(name: &str, words: &[&str], env: &[(&str, &str)]) {
    let Some(program) = installed(name) else {
        skip(&format!("no {name} here"), &format!("apt-get install {name}"));
        return;
    };
    assert_nothing_lost(name, &check::run(&program, words, env, &[]));
}

#[test]
fn git_loses_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).to_str().expect("a plain path");
    let quiet = [("GIT_CONFIG_NOSYSTEM", "1"), ("HOME", "/nonexistent")];
    runs("git", &["-C", folder, "hash-object", "Cargo.toml"], &quiet);
    runs("git", &["diff", "--no-index", "--stat", folder, folder], &quiet);
}

#[test]
fn sqlite_loses_nothing() {
    let script = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c \
                  where x<20000) insert into t select x,hex(x) from c; create index i on t(b); \
                  select count(*),max(b) from t;";
    runs("sqlite3", &[":memory:", script], &[]);
}

#[test]
fn python_loses_nothing() {
    let script = "import json,re\nd=[{'a':i,'b':str(i)*10} for i in range(2000)]\n\
                  print(len(re.findall('a', json.dumps(d))))";
    // Not a wrapper that becomes another program.
    let Some(program) = python() else { return skip("no python3 here", "apt-get install python3") };
    let result = check::run(&program, &["-c", script], &[("PYTHONMALLOC", "malloc")], &[]);
    assert_nothing_lost("python3", &result);
}

/// Checks a server at work, in each way.
fn serves(
    name: &str,
    server: std::result::Result<Server, StartError>,
    pid: impl Fn(&Server) -> i32,
    load: impl Fn(&Server) -> Load,
) {
    let server = match server {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip(&format!("no {name} here"), cure),
        Err(StartError::Failed(why)) => panic!("{name} does not start: {why}"),
    };
    let load = load(&server);
    wait_until("the server to warm up", PATIENCE, || load.answered() >= WARM);
    let duration = if is_soak() { Duration::from_secs(20) } else { Duration::from_secs(1) };
    for method in ["stop", "copy", "fork", "early"] {
        let duration = format!("{}ms", duration.as_millis());
        let options = ["--duration", &duration, "--max-pause", "20s", "--snapshot", method];
        let look = || check::attach(pid(&server), &options);
        // A busy server may be in the middle of an allocation each time, which is told.
        let certain = (1..TRIES).map(|_| look()).find(|result| {
            let doubts = &result.check()["doubts"];
            println!("{name} by {method}: {doubts}");
            doubts.as_array().is_some_and(Vec::is_empty)
        });
        let result = certain.unwrap_or_else(look);
        assert_nothing_lost(&format!("{name} by {method}"), &result);
        let before = load.answered();
        wait_until("it to answer on", PATIENCE, || load.answered() >= before + 100);
        let children = format!("/proc/{0}/task/{0}/children", pid(&server));
        assert_eq!(fs::read_to_string(children).expect("it lives"), "", "{name} {method}");
    }
    load.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly: {wrong}"));
}

#[test]
fn redis_loses_nothing_under_load() {
    serves("redis", redis::start(), Server::pid, redis::load);
}

#[test]
fn memcached_loses_nothing_under_load() {
    serves("memcached", memcached::start(), Server::pid, memcached::load);
}

#[test]
fn nginx_loses_nothing_under_load() {
    let worker = |server: &Server| server.children().first().copied().expect("a worker");
    serves("nginx", nginx::start(), worker, nginx::load);
}
