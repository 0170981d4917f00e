//! Threads that this one traces already, for whatever reason, are stopped and given back as others are.

use std::{
    process::{Child, Command},
    time::{Duration, Instant},
};

use super::*;
use crate::trace::seen::Seen;
use heapattach_process::proc::Process;

const PATIENCE: Duration = Duration::from_secs(60);

struct Sleeper(Child);

impl Sleeper {
    fn start() -> (Self, Target) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let target = Target::open(Process::open(pid).unwrap(), Tracer::Own).unwrap();
        (Self(child), target)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tracer_of(target: &Target) -> i32 {
    target.process.status().unwrap().tracer
}

/// Stops it and lets it go, after which it is not traced.
fn assert_stops(target: &Target) {
    let stop = Stopped::all(target).unwrap();
    assert_eq!(stop.threads().len(), 1);
    assert_eq!(stop.finish().threads, 1);
    let deadline = Instant::now() + PATIENCE;
    while target.threads.has_late() && Instant::now() < deadline {
        target.hold_late(Duration::from_millis(10));
        target.release_late();
    }
    assert_eq!(tracer_of(target), 0, "still traced");
}

#[test]
fn a_thread_that_is_seized_already_is_ours() {
    let (_sleeper, target) = Sleeper::start();
    Tracer::Own.seize(target.process.pid(), target.options).unwrap();
    assert_stops(&target);
}

#[test]
fn a_thread_whose_stop_was_told_before_is_ours() {
    let (_sleeper, target) = Sleeper::start();
    let pid = target.process.pid();
    Tracer::Own.seize(pid, target.options).unwrap();
    Tracer::Own.interrupt(pid).unwrap();
    assert_eq!(target.waiter.wait(pid, Instant::now() + PATIENCE), Seen::Interrupted);
    assert_stops(&target);
}

#[test]
fn a_borrowed_thread_that_is_not_back_when_the_stop_ends_is_let_go_later() {
    let (_sleeper, target) = Sleeper::start();
    let stop = Stopped::all(&target).unwrap();
    // As after an injected call that has not returned in time.
    Tracer::Own.resume(target.process.pid(), 0).unwrap();
    stop.finish();
    assert!(target.threads.has_late() || tracer_of(&target) == 0, "it is forgotten, and traced");
    assert_stops(&target);
}

#[test]
fn a_thread_that_another_process_traces_is_not_ours() {
    let (_sleeper, target) = Sleeper::start();
    let pid = target.process.pid();
    // The kernel takes requests from the very thread that seized, so another thread is another tracer.
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let (told, is_told) = std::sync::mpsc::channel();
    let options = target.options;
    let other = std::thread::spawn(move || {
        told.send(Tracer::Own.seize(pid, options)).unwrap();
        let _ = is_done.recv();
    });
    is_told.recv().unwrap().unwrap();
    let error = Stopped::all(&target).unwrap_err();
    assert!(matches!(error, StopError::Seize { source: Errno::EPERM, .. }), "{error}");
    drop(done);
    other.join().unwrap();
    // A thread is told as ended before the kernel takes what it traces from it.
    let deadline = Instant::now() + PATIENCE;
    while tracer_of(&target) != 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_stops(&target);
}
