//! However a server ends, its processes are as they were.

use std::{thread, time::Duration};

use heapattach_tests::{
    command::Heapattach,
    deadline::{PATIENCE, wait_until},
    task::slept,
};
use nix::sys::signal::Signal;

use crate::server::Served;

/// Whether a session is on a process, or one left something in it.
pub fn is_touched(pid: i32) -> bool {
    let told = Heapattach::new(["status", "--json"]).run();
    told.stdout.contains(&format!("\"pid\": {pid},"))
}

#[test]
fn told_to_end_it_detaches_and_says_that_all_went_well() {
    let Some(mut served) = Served::start(&[]) else { return };
    served.keep(10);
    let pid = served.fixture.pid();
    assert!(is_touched(pid), "there is a session");
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    assert!(!is_touched(pid));
    served.fixture.step(1, 10);
    served.fixture.finish();
}

#[test]
fn killed_it_leaves_no_session_behind() {
    let Some(mut served) = Served::start(&[]) else { return };
    served.keep(10);
    let pid = served.fixture.pid();
    served.running.signal(Signal::SIGKILL);
    assert_eq!(served.running.wait().signal(), Some(9));
    wait_until("the detach", PATIENCE, || !is_touched(pid));
    served.fixture.step(1, 10);
    served.fixture.finish();
}

#[test]
fn without_anything_left_to_serve_it_ends() {
    let Some(served) = Served::start(&[]) else { return };
    served.fixture.finish();
    served.running.wait().expect(5);
}

/// It waits for clients, for signals and for the end of its sessions, and looks for none of them.
#[test]
fn a_server_that_is_asked_nothing_sleeps() {
    let Some(served) = Served::start(&[]) else { return };
    let pid = served.running.pid();
    let in_a_time = || {
        let before = slept(pid);
        thread::sleep(Duration::from_secs(2));
        // Less than before: a thread has ended meanwhile, and with it its count.
        slept(pid).checked_sub(before)
    };
    // What was asked last may still be at its end.
    wait_until("a server that sleeps", PATIENCE, || in_a_time().is_some_and(|times| times <= 2));
    served.fixture.finish();
    served.running.wait().expect(5);
}
