//! Every call stack heapattach records is the one that glibc's backtrace() sees, frame by frame, to
//! the end of the thread.

use std::{
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    compile::{Source, fixture, folder, is_there},
    deadline::{PATIENCE, poll, wait_until},
    fixture::{Fixture, Launch},
    oracle::{Oracle, Session},
    real::{Load, Server, StartError, children, memcached, nginx, python, redis},
    seed::seed,
    skip::skip,
};

/// Fewer allocations prove little.
const ENOUGH: u64 = 10_000;
/// What share of them must have the right stack.
const NEARLY_ALL: f64 = 0.9999;

/// The step of all fixtures; and that of `stacks.cpp` on coroutines, of `stacks.c` with signals that
/// are handled on a stack of their own.
const WORK: u64 = 1;
const ON_OTHER_STACKS: u64 = 2;
/// How often a session may lose records before that is a fault.
const TRIES: u32 = 3;

fn under(oracle: &Oracle, launch: Launch) -> Fixture {
    let [preload, tables] = oracle.environment();
    launch.env(preload.0, preload.1).env(tables.0, tables.1).start()
}

/// A fixture at rest when it is attached to and when it is left: all must be right, and each stack
/// recorded as often as it was there.
fn is_right_in(source: &Source) {
    let Some(oracle) = Oracle::new() else { return };
    let Some(launch) = Launch::of(source) else { return };
    let mut fixture = under(&oracle, launch);
    let seed = seed();
    let what = format!("{}, seed {seed}", fixture.name());
    // What libc allocates once is there.
    fixture.step(WORK, seed);
    for session in 0..2 {
        let mut look = || {
            let session_begun = Session::start(&oracle, fixture.pid());
            // The first time the same stacks as before; the second time both old and new ones.
            for turn in 0..=session {
                fixture.step(WORK, seed + turn);
            }
            session_begun.end_if_whole()
        };
        // Where the reader gets no time records are missing, and that is told.
        let ended = (1..TRIES).find_map(|_| look().map_err(|lost| eprintln!("{lost}")).ok());
        let ended = ended.unwrap_or_else(|| look().unwrap_or_else(|lost| panic!("{lost}")));
        ended.comparison.assert_good(&what, ENOUGH, 1.0);
        ended.comparison.assert_same_counts(&what);
    }
    fixture.finish();
}

#[test]
fn of_c() {
    is_right_in(&Source::new("stacks.c"));
}

#[test]
fn of_c_by_clang() {
    if !is_there("clang") {
        return skip("no clang here", "apt-get install clang");
    }
    is_right_in(&Source::new("stacks.c").compiler("clang"));
}

#[test]
fn of_c_with_frame_pointers() {
    is_right_in(&Source::new("stacks.c").flag("-fno-omit-frame-pointer"));
}

#[test]
fn of_c_without_optimisation() {
    is_right_in(&Source::new("stacks.c").flag("-O0"));
}

#[test]
fn of_cpp() {
    is_right_in(&Source::new("stacks.cpp"));
}

#[test]
fn of_rust() {
    is_right_in(&Source::new("stacks.rs"));
}

#[test]
fn of_handlers_at_exit() {
    let Some(oracle) = Oracle::new() else { return };
    let Some(launch) = Launch::new("stacks.c") else { return };
    let mut fixture = under(&oracle, launch);
    fixture.step(WORK, 1);
    let session = Session::start(&oracle, fixture.pid());
    fixture.step(WORK, 1);
    let before = oracle.noted(fixture.pid());
    let pid = fixture.pid();
    fixture.finish();
    let ended = session.end_with_program();
    assert!(oracle.noted(pid) > before + 100, "nothing was allocated at exit");
    ended.comparison.assert_good("stacks.c to its end", ENOUGH, 1.0);
    ended.comparison.assert_same_counts("stacks.c to its end");
}

/// A stack that heapattach does not know the bounds of may be cut, by name, but never be wrong.
fn is_right_or_cut_in(file: &str) {
    let Some(oracle) = Oracle::new() else { return };
    let Some(launch) = Launch::new(file) else { return };
    let mut fixture = under(&oracle, launch);
    fixture.step(ON_OTHER_STACKS, 1);
    let session = Session::start(&oracle, fixture.pid());
    fixture.step(ON_OTHER_STACKS, 1);
    let ended = session.end();
    fixture.finish();
    let comparison = ended.comparison;
    println!("{file} on other stacks: {comparison}");
    assert!(comparison.allocations >= ENOUGH && comparison.unnoted == 0, "{comparison}");
    let counted: u64 = ended.recorded.iter().map(|stack| stack.allocations).sum();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let counted = counted as f64;
    assert_eq!(counted, ended.report.heap.allocated.blocks.value, "not every block has a stack");
    // Not even one that is cut may lead astray on the way.
    assert_eq!(comparison.astray, 0, "{comparison}");
}

#[test]
fn of_coroutines_is_right_or_says_that_it_is_cut() {
    is_right_or_cut_in("stacks.cpp");
}

#[test]
fn of_handlers_on_signal_stacks_is_right_or_says_that_it_is_cut() {
    is_right_or_cut_in("stacks.c");
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

/// A server under load, until it has made so many allocations.
fn is_right_under_load(
    name: &str,
    number: u64,
    start: impl FnOnce(&Oracle) -> Result<Server, StartError>,
    pid: impl FnOnce(&Server) -> i32,
    load: impl FnOnce(&Server) -> Load,
) {
    let Some(oracle) = Oracle::new() else { return };
    let Some(server) = started(start(&oracle)) else { return };
    let pid = pid(&server);
    let load = load(&server);
    wait_until("answers", PATIENCE, || load.answered() > 0);
    let session = Session::start(&oracle, pid);
    oracle.wait_for_more(pid, number);
    let ended = session.end();
    load.finish().unwrap_or_else(|wrong| panic!("{name} answered wrongly: {wrong}"));
    ended.comparison.assert_good(name, ENOUGH, NEARLY_ALL);
}

#[test]
fn of_redis() {
    let start = |oracle: &Oracle| redis::start_with(oracle.environment());
    // All kinds of requests, which the load makes one after the other.
    is_right_under_load("redis", 15 * ENOUGH, start, Server::pid, redis::load);
}

#[test]
fn of_memcached() {
    let start = |oracle: &Oracle| memcached::start_with(oracle.environment());
    is_right_under_load("memcached", 2 * ENOUGH, start, Server::pid, memcached::load);
}

#[test]
fn of_an_nginx_worker() {
    let start = |oracle: &Oracle| nginx::start_with(oracle.environment());
    let worker = |server: &Server| *server.children().first().expect("nginx has workers");
    is_right_under_load("nginx", 2 * ENOUGH, start, worker, nginx::load);
}

#[test]
fn of_python() {
    let Some(python) = python() else {
        return skip("no python3 here", "apt-get install python3");
    };
    let Some(oracle) = Oracle::new() else { return };
    let script = fixture("python_stacks.py");
    let launch = Launch::program(&python).arg(script).env("PYTHONMALLOC", "malloc");
    let mut fixture = under(&oracle, launch);
    // Its modules are loaded: what is loaded in mid-session is another test's concern.
    fixture.step(WORK, 1);
    let session = Session::start(&oracle, fixture.pid());
    fixture.step(WORK, 2);
    let ended = session.end();
    fixture.finish();
    ended.comparison.assert_good("python3", ENOUGH, NEARLY_ALL);
    assert!(ended.comparison.modules.len() >= 8, "{:?}", ended.comparison.modules);
}

/// g++ and, as its child, the compiler proper.
struct Compilation(Child);

impl Compilation {
    /// Held before its `main`, where all its modules are loaded.
    fn start(oracle: &Oracle) -> Self {
        let mut wrapper = "env,HEAPATTACH_ORACLE_HOLD=1".to_owned();
        for (name, value) in oracle.environment() {
            let value: &Path = &value;
            wrapper += &format!(",{name}={}", value.display());
        }
        let source: PathBuf = fixture("truth.cpp");
        let mut command = Command::new("g++");
        command.args(["-wrapper", &wrapper, "-fsyntax-only", "-O2", "-std=c++17", "-I"]);
        command.arg(folder()).arg(source);
        command.stdin(Stdio::null());
        Self(command.spawn().expect("g++, which ran a moment ago"))
    }

    fn compiler(&self) -> i32 {
        let driver = i32::try_from(self.0.id()).expect("a pid");
        let compiler = poll(PATIENCE, || children(driver).first().copied());
        compiler.expect("g++ starts the compiler proper")
    }

    fn is_good(&mut self) -> io::Result<bool> {
        let ended = poll(PATIENCE, || self.0.try_wait().transpose()).transpose()?;
        Ok(ended.is_some_and(|status| status.success()))
    }
}

impl Drop for Compilation {
    fn drop(&mut self) {
        // The compiler proper must not wait for us for ever.
        for child in children(self.0.id().cast_signed()) {
            let child = nix::unistd::Pid::from_raw(child);
            let _ = nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL);
        }
        let _ = self.0.wait();
    }
}

#[test]
fn of_a_compiler() {
    if !is_there("g++") {
        return skip("no g++ here", "apt-get install g++");
    }
    let Some(oracle) = Oracle::new() else { return };
    let mut compilation = Compilation::start(&oracle);
    let pid = compilation.compiler();
    oracle.wait_until_held(pid);
    let session = Session::start(&oracle, pid);
    oracle.let_go(pid);
    let ended = session.end_with_program();
    assert!(compilation.is_good().expect("a child of ours"), "it does not compile");
    ended.comparison.assert_good("cc1plus", ENOUGH, NEARLY_ALL);
}
