//! `heapattach check -p`: leaks from before the attach are found, by what allocators know of their blocks.

use std::{path::Path, process::Command};

use heapattach_tests::{
    check::{self, Result, Stepping},
    compile::{Source, is_there},
    real::python,
    skip::skip,
};
use serde_json::Value;

const BLOCKS: u64 = 1000;
/// Of ten blocks one has two more behind it.
const LEAKED: u64 = BLOCKS + BLOCKS / 10 * 2;
/// Words that calls left behind may hold so many of a thread's.
const STALE: u64 = 3;

fn look(pid: i32, more: &[&str]) -> Result {
    let options = ["--duration", "100ms", "--max-pause", "60s", "--github=off"];
    check::attach(pid, &[&options[..], more].concat())
}

fn older<'r>(result: &'r Result, what: &str) -> &'r Value {
    let older = &result.check()["older"];
    assert!(older.is_object(), "{what}: nothing is told: {}", result.check());
    older
}

fn blocks(older: &Value, kinds: &[&str]) -> u64 {
    kinds.iter().map(|kind| older[*kind]["blocks"].as_u64().expect("a number")).sum()
}

/// Starts the fixture, and finds what it has leaked: all of it, and nothing else.
fn assert_found(program: &Path, threads: u64, preload: Option<&Path>, allocator: &str) {
    let mut command = Command::new(program);
    command.args([BLOCKS.to_string(), threads.to_string()]);
    if let Some(preload) = preload {
        command.env("LD_PRELOAD", preload);
    }
    let program = Stepping::of(&mut command);
    let expected = LEAKED * (threads + 1);
    // Where hooks are in slots memory is not copied early.
    let early = preload.is_none().then_some("early");
    for snapshot in ["copy", "fork"].into_iter().chain(early) {
        let what = format!("{allocator}, {threads} threads, by {snapshot}");
        let result = look(program.pid(), &["--snapshot", snapshot]);
        let older = older(&result, &what);
        let known = older["allocators"].as_array().expect("a list");
        assert!(known.iter().any(|name| name == allocator), "{what}: {older}");
        let found = blocks(older, &["direct", "indirect"]) - own_leaks(older);
        // Words that an ended call left behind may lead into a block, too.
        let possible = blocks(older, &["possible"]);
        println!("{what}: {found} of {expected}, {possible} possible");
        let least = expected - STALE * (threads + 1);
        assert!((least..=expected).contains(&found), "{what}: {found} of {expected}: {older:#}");
        assert!(least * 100 >= expected * 99, "the test asks for less than 99 %");
        assert!(found + possible <= expected, "{what}: {possible} possible: {older:#}");
        assert_eq!(result.sum("direct"), (0, 0), "{what}");
        assert_eq!(result.code, Some(0), "{what}: what is older does not count: {}", result.talk);
    }
}

/// gperftools forgets the first of its objects when it makes its second.
fn own_leaks(older: &Value) -> u64 {
    let groups = older["groups"].as_array().expect("a list").iter();
    let own = groups.filter(|group| group["class"] == "MallocExtension");
    own.map(|group| group["own"]["blocks"].as_u64().expect("a number")).sum()
}

fn library(name: &str, package: &str) -> Option<std::path::PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
    if !path.exists() {
        skip(&format!("no {name} here"), &format!("apt-get install {package}"));
        return None;
    }
    Some(path)
}

#[test]
fn what_leaked_before_the_attach_is_found() {
    let Some(program) = Source::new("older_leaks.c").build() else { return };
    for threads in [0, 4] {
        assert_found(&program, threads, None, "glibc");
    }
}

#[test]
fn it_is_found_with_other_allocators() {
    let Some(program) = Source::new("older_leaks.c").build() else { return };
    for (name, package, allocator) in [
        ("libjemalloc.so.2", "libjemalloc2", "jemalloc"),
        ("libtcmalloc_minimal.so.4", "libgoogle-perftools4", "tcmalloc"),
        ("libmimalloc.so.2", "libmimalloc2.0", "mimalloc"),
    ] {
        let Some(preload) = library(name, package) else { continue };
        for threads in [0, 3] {
            assert_found(&program, threads, Some(&preload), allocator);
        }
    }
}

#[test]
fn it_is_found_in_a_static_program_with_musls_library() {
    if !is_there("musl-gcc") {
        return skip("no musl-gcc here", "apt-get install musl-tools");
    }
    let source = Source::new("older_leaks.c").compiler("musl-gcc").flag("-static");
    let Some(program) = source.build() else { return };
    assert_found(&program, 2, None, "mallocng");
}

#[test]
fn objects_of_cpp_are_told_with_their_class() {
    let Some(program) = Source::new("older_leaks.cpp").build() else { return };
    let program = Stepping::start(&program, &[]);
    let result = look(program.pid(), &[]);
    let older = older(&result, "C++");
    // A square has a string, a group a table and a circle.
    let found = blocks(older, &["direct", "indirect"]);
    assert!((3000 - 30..=3000).contains(&found), "{found}: {older:#}");
    for class in ["Square", "Circle", "Group"] {
        let groups = older["groups"].as_array().expect("a list").iter();
        let own = groups.filter(|group| group["class"] == class);
        let own: u64 = own.map(|group| group["own"]["blocks"].as_u64().expect("a number")).sum();
        assert!((495..=500).contains(&own), "{class}: {own}: {older:#}");
    }
}

#[test]
fn it_counts_where_that_is_asked_for_and_what_leaks_now_is_told_apart() {
    let Some(program) = Source::new("older_leaks.c").build() else { return };
    let program = Stepping::start(&program, &["100", "0"]);
    let result = look(program.pid(), &["--fail-on", "direct,indirect,older"]);
    assert_eq!(result.code, Some(23), "{}", result.talk);
    let breaches = result.report["findings"]["breaches"].to_string() + &result.talk;
    assert!(breaches.contains("--fail-on older"), "{breaches}");
    // In a stop nothing is looked for: it would be longer.
    let result = look(program.pid(), &["--snapshot", "stop"]);
    assert!(result.check()["older"].is_null(), "{}", result.check());
}

/// Nothing of what such a program has is called leaked.
fn assert_clean(name: &str, command: &mut Command) {
    let program = Stepping::of(command);
    for snapshot in ["copy", "fork"] {
        let result = look(program.pid(), &["--snapshot", snapshot]);
        let older = older(&result, name);
        println!("{name} by {snapshot}: {older}");
        assert_eq!(older["allocators"], serde_json::json!(["glibc"]), "{name}: {older:#}");
        assert!(blocks(older, &["reachable", "possible"]) > 100, "{name}: {older:#}");
        assert_eq!(blocks(older, &["direct", "indirect"]), 0, "{name}: {older:#}");
    }
}

#[test]
fn nothing_of_pythons_web_server_is_called_leaked() {
    let Some(python) = python() else { return skip("no python3 here", "apt-get install python3") };
    let script = "import http.server as h, sys, threading, urllib.request\n\
        class Quiet(h.SimpleHTTPRequestHandler):\n    def log_message(self, *_): pass\n\
        server = h.ThreadingHTTPServer(('127.0.0.1', 0), Quiet)\n\
        threading.Thread(target=server.serve_forever, daemon=True).start()\n\
        for _ in range(50):\n    \
            urllib.request.urlopen('http://127.0.0.1:%d/' % server.server_port).read()\n\
        print('ready', flush=True)\nsys.stdin.read()";
    let mut command = Command::new(python);
    command.args(["-c", script]).env("no_proxy", "*").current_dir(env!("CARGO_MANIFEST_DIR"));
    assert_clean("python3", &mut command);
}

#[test]
fn nothing_of_sqlite_is_called_leaked() {
    if !is_there("sqlite3") {
        return skip("no sqlite3 here", "apt-get install sqlite3");
    }
    let script = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c \
                  where x<20000) insert into t select x,hex(x) from c; create index i on t(b); \
                  select 'ready';";
    let mut command = Command::new("sqlite3");
    assert_clean("sqlite3", command.args(["-batch", "-cmd", script, ":memory:"]));
}
