//! Attaching to many threads, to short-lived ones, and to each where it blocks.

use heapattach_tests::{
    command::Hooks,
    fixture::Launch,
    hazard::{Calls, Hazard},
};

const FAILED: i32 = 1;
const REFUSED: i32 = 3;

/// How many threads must have lived and ended under our eyes.
const SHORT_LIVES: u64 = 100_000;

fn a_thousand_threads(hooks: Hooks) {
    let Some(launch) = Launch::new("many_threads.c") else { return };
    let fixture = launch.arg("1000").start();
    let summary = Hazard::new("1000 threads", fixture, hooks).loose().warm_up(2000).run();
    let stopped = summary.last.stops.iter().map(|stop| stop.threads).max();
    assert!(stopped >= Some(1000), "only {stopped:?} threads were stopped");
}

fn a_hundred_thousand_short_threads(hooks: Hooks) {
    let Some(launch) = Launch::new("short_threads.c") else { return };
    let hazard = Hazard::new("100,000 short threads", launch.start(), hooks);
    hazard.loose().warm_up(100).until_progress(SHORT_LIVES).run();
}

fn a_thread_in_each_blocking_call(hooks: Hooks) {
    let Some(launch) = Launch::new("blocking.c") else { return };
    let hazard = Hazard::new("each blocking call", launch.start(), hooks);
    hazard.loose().warm_up(60).calls(Calls::Sometimes).run_with(|fixture, _| {
        // Every call is to be stopped in at different points of its time.
        fixture.advance(25);
    });
}

fn leader_gone_before_its_threads(hooks: Hooks) {
    let Some(launch) = Launch::new("zombie_leader.c") else { return };
    Hazard::new("zombie leader", launch.start(), hooks).loose().warm_up(20).run();
}

fn a_thread_that_hardly_gets_a_processor(hooks: Hooks) {
    let Some(launch) = Launch::new("without_processor.c") else { return };
    // On a busy machine it may not be seen to stop in time: then nothing was touched, or all was put back.
    let hazard = Hazard::new("starving thread", launch.start(), hooks).warm_up(100);
    hazard.may_refuse(&[FAILED, REFUSED], "did not stop within").run();
}

heapattach_tests::hazards![
    a_thousand_threads,
    a_hundred_thousand_short_threads,
    a_thread_in_each_blocking_call,
    leader_gone_before_its_threads,
    a_thread_that_hardly_gets_a_processor,
];
