//! `allocator --apply background_thread=true`: jemalloc has threads of its own in a process that runs, and none after
//! `background_thread=false`; what could end otherwise is refused by name.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use heapattach_tests::{
    command::Heapattach,
    compile::{Source, is_there},
    deadline::{PATIENCE, poll},
    skip::skip,
};

use super::trim::{applied, apply, lives_when_killed, preloaded};
use crate::allocating::Allocating;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const ON: &str = "background_thread=true";
const OFF: &str = "background_thread=false";

fn program(arguments: &[&str], settings: &str) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", settings)];
    Allocating::of("fragmented.c", arguments, &environment)
}

fn tids(pid: i32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Threads that jemalloc has named.
fn own_threads(pid: i32) -> usize {
    let name = |tid: &String| fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
    let named = |tid: &String| name(tid).is_ok_and(|name| name.trim() == "jemalloc_bg_thd");
    tids(pid).iter().filter(|tid| named(tid)).count()
}

/// Nothing was set, for that reason.
fn is_told(pid: i32, what: &str, code: i32, why: &str) {
    let told = applied(&apply(pid, what, None).expect(code));
    assert!(told["error"].as_str().is_some_and(|error| error.contains(why)), "{why}: {told}");
    assert!(told["setting_after"].is_null(), "{told}");
    assert_eq!(own_threads(pid), 0);
}

#[test]
fn threads_of_jemallocs_own_begin_and_end_again() {
    let Some(mut program) = program(&["2", "60000"], "dirty_decay_ms:1000") else { return };
    let pid = program.pid();
    let before = tids(pid).len();
    for _ in 0..3 {
        let told = applied(&apply(pid, ON, None).expect(DONE));
        println!("{told}");
        assert_eq!(told["setting_before"], OFF, "{told}");
        assert_eq!(told["setting_after"], ON, "{told}");
        // A thread names itself.
        let has_begun = poll(PATIENCE, || (own_threads(pid) > 0).then_some(()));
        assert!(has_begun.is_some(), "{:?}", tids(pid));
        let again = applied(&apply(pid, ON, None).expect(FAILED));
        assert!(again["error"].as_str().is_some_and(|error| error.contains("already")), "{again}");
        let told = applied(&apply(pid, OFF, None).expect(DONE));
        assert_eq!((&told["setting_before"], &told["setting_after"]), (&ON.into(), &OFF.into()));
        // They have ended when the call returns, and the kernel soon has no trace of them.
        let is_as_before = poll(PATIENCE, || (tids(pid).len() == before).then_some(()));
        assert!(is_as_before.is_some() && own_threads(pid) == 0, "{:?}", tids(pid));
        assert!(program.is_well());
    }
}

#[test]
fn what_is_said_is_what_was_done_and_how_to_take_it_back() {
    let Some(mut program) = program(&["2", "2000"], "narenas:2") else { return };
    let pid = program.pid().to_string();
    let told = Heapattach::new(["allocator", "-p", &pid, "--apply", ON]).run().expect(DONE).stdout;
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains(&format!("{OFF} before, {ON} after, by mallctl(\"background_thread\")")),
        "{told}"
    );
    assert!(told.contains(&format!("taken back by --apply {OFF}")), "{told}");
    Heapattach::new(["allocator", "-p", &pid, "--apply", OFF]).run().expect(DONE);
    for value in ["background_thread=on", "background_thread"] {
        let told = Heapattach::new(["allocator", "-p", &pid, "--apply", value]).run().expect(USAGE);
        assert!(told.stderr.contains("need background_thread=true or"), "{told:?}");
    }
    assert!(program.is_well());
}

#[test]
fn a_program_with_one_thread_or_another_allocator_or_that_would_abort_is_refused() {
    let Some(mut alone) = program(&["0", "100"], "narenas:2") else { return };
    is_told(alone.pid(), ON, REFUSED, "has one thread, and may count on that");
    assert!(alone.is_well());
    let Some(mut strict) = program(&["2", "100"], "abort:true") else { return };
    is_told(strict.pid(), ON, REFUSED, "opt.abort");
    assert!(strict.is_well());
    let Some(mut glibc) = Allocating::of("fragmented.c", &["2", "2000"], &[]) else { return };
    is_told(glibc.pid(), ON, REFUSED, "a setting of jemalloc");
    assert!(glibc.is_well());
}

#[test]
fn a_program_with_a_pthread_create_of_its_own_is_refused() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let source = Source::new("fragmented.c").flag("-DOWN_CREATE").flag("-rdynamic");
    let environment = [("LD_PRELOAD", library.as_str())];
    let Some(mut own) = Allocating::built(&source, &["2", "100"], &environment) else { return };
    is_told(own.pid(), ON, REFUSED, "the program itself has a pthread_create of its own");
    assert!(own.is_well());
}

/// A shell with a part of it as a process of its own.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        // Its part ends with its input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_fork_with_one_thread_is_refused() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let shell = Command::new("sh")
        .args(["-c", "exec 3<&0; (read line <&3; :) & echo $!; wait"])
        .env("LD_PRELOAD", library)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut shell = Shell(shell.expect("a shell"));
    let mut line = String::new();
    let output = shell.0.stdout.as_mut().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a pid");
    let pid = line.trim().parse().expect("a pid");
    is_told(pid, ON, REFUSED, "is a fork with one thread");
}

/// The program's own `mallctl` stands before jemalloc's, as the loader has it.
fn answers(number: &str) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let number = format!("-DMALLCTL={number}");
    let source = Source::new("fragmented.c").flag(&number).flag("-rdynamic");
    Allocating::built(&source, &["2", "2000"], &[("LD_PRELOAD", &library)])
}

#[test]
fn what_jemalloc_cannot_do_is_told_and_is_as_before() {
    let Some(mut without) = answers("ENOENT") else { return };
    is_told(without.pid(), ON, FAILED, "was built without background threads");
    assert!(without.is_well());
    let Some(mut full) = answers("EFAULT") else { return };
    is_told(full.pid(), ON, FAILED, "could not start a thread");
    is_told(full.pid(), ON, FAILED, "it is background_thread=false again");
    assert!(full.is_well());
}

#[test]
fn a_thread_that_would_pass_on_a_real_time_policy_is_refused() {
    if !is_there("chrt") {
        return skip("no chrt here", "apt-get install util-linux");
    }
    let Some(mut program) = program(&["2", "2000"], "narenas:2") else { return };
    let pid = program.pid();
    for tid in tids(pid) {
        let set =
            Command::new("chrt").args(["--rr", "--pid", "1", &tid]).output().expect("it starts");
        if !set.status.success() {
            return skip("no real-time policies here", "run as root");
        }
    }
    is_told(pid, ON, FAILED, "has a real-time policy");
    assert!(program.is_well());
}

#[test]
fn the_target_lives_when_who_sets_it_is_killed_at_any_call() {
    let Some(library) = preloaded("libjemalloc.so.2") else { return };
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", "narenas:2")];
    lives_when_killed(ON, &environment);
}
