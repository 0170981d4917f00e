//! `allocator --profile --apply prof_active=true`: jemalloc's own profiler is on for a session, and off again after it,
//! also where one of its processes is killed.

use std::path::Path;

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, poll},
    hazard::cycles,
    sample::points,
    seed::{Random, seed},
};
use nix::sys::signal::Signal;
use serde_json::Value;

use super::trim::preloaded;
use crate::allocating::Allocating;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const REFUSED: i32 = 3;
const LEFT: i32 = 7;
const ON: &str = "prof_active=true";

fn program(settings: &str, mood: &[&str]) -> Option<Allocating> {
    let library = preloaded("libjemalloc.so.2")?;
    let environment = [("LD_PRELOAD", library.as_str()), ("MALLOC_CONF", settings)];
    let arguments = [&["2", "3000"], mood].concat();
    Allocating::of("fragmented.c", &arguments, &environment)
}

fn session(pid: i32, file: &Path, time: &str) -> Heapattach {
    // A file that is there is not written over.
    let _ = std::fs::remove_file(file);
    let (pid, file) = (pid.to_string(), file.to_str().expect("a name"));
    let words = ["allocator", "-p", &pid, "--profile", file, "--apply", ON, "--duration", time];
    Heapattach::new(words)
}

/// Whether samples are taken, by what a session that ends at once says it was until then.
fn is_on(pid: i32, folder: &Folder) -> bool {
    // One whose command was killed may be there still.
    let told = poll(PATIENCE, || {
        let asked = session(pid, &folder.0.join("asked"), "1ms").run();
        (asked.code() == Some(DONE)).then_some(asked.stderr)
    });
    let told = told.expect("a session");
    let was = |value: &str| told.contains(&format!("prof_active={value} until now"));
    assert!(was("true") != was("false"), "{told}");
    was("true")
}

#[test]
fn it_samples_for_the_time_of_a_session_and_no_longer() {
    let Some(mut program) = program("prof:true,prof_active:false,lg_prof_sample:0", &[]) else {
        return;
    };
    let folder = Folder::new("prof-active");
    let file = folder.0.join("own.heapattach");
    let outcome = session(program.pid(), &file, "500ms").arg("--json").run().expect(DONE);
    assert!(outcome.stderr.contains("prof_active=false again"), "{outcome:?}");
    let report: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    // A thread keeps 64 blocks that come and go, at most; what was there before is not told.
    let sites = report["summary"]["sites"].as_array().expect("sites");
    let sum: f64 = sites.iter().filter_map(|site| site["live"]["blocks"]["value"].as_f64()).sum();
    assert!((1.0..=200.0).contains(&sum), "{sum}: {sites:#?}");
    let blind = report["blind"].to_string();
    assert!(blind.contains("before prof.active was set"), "{blind}");
    assert!(!is_on(program.pid(), &folder));
    assert!(program.is_well());
}

#[test]
fn detach_leaves_a_session_that_is_alive_alone() {
    let Some(mut program) = program("prof:true,prof_active:false,lg_prof_sample:14", &[]) else {
        return;
    };
    let folder = Folder::new("prof-active");
    let running = session(program.pid(), &folder.0.join("own"), "1h").start();
    let refused = poll(PATIENCE, || {
        let detached = Heapattach::detach(program.pid()).run();
        let is_named = detached.stderr.contains("has jemalloc's profiler of process");
        (is_named && detached.code() == Some(REFUSED)).then_some(())
    });
    assert!(refused.is_some());
    let on = poll(PATIENCE, || running.talk().contains(ON).then_some(()));
    assert!(on.is_some(), "{}", running.talk());
    running.signal(Signal::SIGINT);
    running.wait().expect(DONE);
    assert!(!is_on(program.pid(), &folder));
    assert!(program.is_well());
}

#[test]
fn one_that_is_on_stays_on() {
    let Some(mut program) = program("prof:true,lg_prof_sample:14", &[]) else { return };
    let folder = Folder::new("prof-active");
    assert!(is_on(program.pid(), &folder));
    assert!(is_on(program.pid(), &folder));
    assert!(program.is_well());
}

#[test]
fn without_a_profiler_or_a_thread_that_comes_by_nothing_is_set() {
    let folder = Folder::new("prof-active");
    let file = folder.0.join("own.heapattach");
    let Some(mut off) = program("prof:false", &[]) else { return };
    let outcome = session(off.pid(), &file, "1s").run().expect(REFUSED);
    assert!(outcome.stderr.contains("opt.prof:false"), "{outcome:?}");
    assert!(off.is_well());
    let Some(mut rest) = program("prof:true,prof_active:false", &["rest"]) else { return };
    let outcome = session(rest.pid(), &file, "1s").run().expect(1);
    assert!(outcome.stderr.contains("no thread of the target came"), "{outcome:?}");
    assert!(rest.is_well() && !file.exists());
    let pid = rest.pid().to_string();
    let status = Heapattach::new(["status"]).run().expect(DONE).stdout;
    assert!(!status.contains(&format!("detach -p {pid}")), "{status}");
    for words in [
        &["--apply", ON][..],
        &["--profile", "a", "--apply", "trim"],
        &["--profile", "a", "--duration", "1s"],
    ] {
        let process = ["allocator", "-p", &pid];
        Heapattach::new(process.iter().chain(words).copied()).run().expect(USAGE);
    }
}

/// On and off again, so often, on threads that allocate without end; and so many blocks that are found right.
fn again_and_again(times: u64, later: u64) {
    let settings = "prof:true,prof_active:false,lg_prof_sample:14";
    let folder = Folder::new("prof-active");
    let file = folder.0.join("own.heapattach");
    let Some(mut program) = program(settings, &["waste"]) else { return };
    let mut done = 0;
    for number in 0..times {
        let outcome = session(program.pid(), &file, "1ms").run();
        // No thread may have come by.
        assert!(matches!(outcome.code(), Some(DONE | FAILED)), "{number}: {outcome:?}");
        done += u64::from(outcome.code() == Some(DONE));
        assert!(program.is_well(), "{number}: {outcome:?}");
    }
    assert!(done * 2 > times, "{done} of {times}");
    assert!(!is_on(program.pid(), &folder));
    let (before, mut last) = (program.turns(), 0);
    while last < before + later {
        let went_on = poll(PATIENCE, || Some(program.turns()).filter(|now| *now > last));
        last = went_on.expect("its threads go on");
    }
    assert!(program.is_well());
    println!("{done} of {times} sessions, {} blocks right since", last - before);
}

#[test]
fn blocks_are_as_they_were_left_under_load() {
    again_and_again(cycles().clamp(2, 10), 100_000);
}

#[test]
#[ignore = "minutes: a thousand, and ten million blocks after that"]
fn a_thousand_sessions() {
    again_and_again(1000, 10_000_000);
}

#[test]
fn it_is_off_again_when_who_switched_it_on_is_killed_at_any_call() {
    let settings = "prof:true,prof_active:false,lg_prof_sample:14";
    let folder = Folder::new("prof-active");
    let file = folder.0.join("own.heapattach");
    let Some(mut program) = program(settings, &[]) else { return };
    let pid = program.pid();
    let calls = session(pid, &file, "1ms").fault("trace").run().expect(DONE).calls();
    assert!(calls.len() > 8, "{calls:?}");
    let mut random = Random::new(seed());
    for (kind, most) in [("kill", 12), ("killfront", 6), ("fail", 6)] {
        for number in points(calls.len() as u64, most, &mut random) {
            let outcome = session(pid, &file, "1ms").fault(&format!("{kind}:{number}")).run();
            // One whose command was killed goes on, and finishes what it has begun.
            let is_clean = poll(PATIENCE, || {
                let detached = Heapattach::detach(pid).run();
                let code = detached.code();
                assert!(
                    matches!(code, Some(DONE | REFUSED | LEFT)),
                    "{kind} at {number} of {calls:?}: {outcome:?}, {detached:?}"
                );
                (code == Some(DONE)).then_some(())
            });
            assert!(is_clean.is_some(), "{kind} at {number} of {calls:?}: {outcome:?}");
            assert!(program.is_well(), "{kind} at {number} of {calls:?}: {outcome:?}");
            // Who set it may still be at work, and is between two calls.
            let is_off = poll(PATIENCE, || (!is_on(pid, &folder)).then_some(()));
            assert!(is_off.is_some(), "{kind} at {number} of {calls:?}: {outcome:?}");
        }
    }
}
