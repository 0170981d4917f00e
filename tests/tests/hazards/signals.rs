//! Attaching without losing a signal, and without one doing what it would not have done.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use heapattach_tests::{
    barrage::Barrage,
    command::Hooks,
    compile::Source,
    fixture::Launch,
    hazard::{Calls, Hazard, Moment},
};

fn timer_signals_with_an_allocating_handler(hooks: Hooks) {
    let Some(allocator) = Source::new("safe_allocator.c").build() else { return };
    let storm = Source::new("signal_storm.c").flag(&allocator.to_string_lossy());
    let Some(launch) = Launch::of(&storm) else { return };
    Hazard::new("2 kHz signal storm", launch.start(), hooks).warm_up(100).run();
}

fn a_signal_to_every_thread_in_every_stop(hooks: Hooks) {
    let Some(launch) = Launch::new("interrupted.c") else { return };
    let (mut barrage, hits) = (None, Arc::new(AtomicU64::new(0)));
    let hazard = Hazard::new("a signal to every thread", launch.start(), hooks);
    let seen = hits.clone();
    let hazard = hazard.loose().warm_up(20).until(move || seen.load(SeqCst) > 0);
    hazard.run_watched(|fixture, moment| match moment {
        Moment::Begun => {
            barrage = Some(Barrage::start(fixture.pid(), fixture.page().clone(), hits.clone()));
        }
        Moment::Cycle(_) => (),
        Moment::Over => {
            let sent = barrage.take().expect("begun before it is over").end();
            println!("{sent:?}");
            assert!(sent.in_stops > 0, "no signal was sent in a stop");
        }
    });
}

fn sigtrap_blocked_and_handled(hooks: Hooks) {
    let Some(launch) = Launch::new("trap.c") else { return };
    let hazard = Hazard::new("SIGTRAP blocked and handled", launch.start(), hooks);
    hazard.loose().warm_up(20).run_with(|fixture, _| {
        for step in [1, 2] {
            fixture.step(step, 0);
        }
    });
}

fn target_stopped_by_a_signal(hooks: Hooks) {
    let Some(launch) = Launch::new("hammer.c") else { return };
    let fixture = launch.arg("2").arg("400").start();
    Hazard::new("T state", fixture, hooks).loose().stopped().calls(Calls::Never).run();
}

heapattach_tests::hazards![
    timer_signals_with_an_allocating_handler,
    a_signal_to_every_thread_in_every_stop,
    sigtrap_blocked_and_handled,
    target_stopped_by_a_signal,
];
