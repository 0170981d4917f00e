//! Attaching while the target allocates as hard as it can.

use heapattach_tests::{
    command::Hooks,
    fixture::{Fixture, Launch},
    hazard::Hazard,
};

/// `hammer THREADS LARGEST [grow]`
fn hammer(arguments: &[&str]) -> Option<Fixture> {
    let launch = Launch::new("hammer.c")?;
    Some(arguments.iter().fold(launch, |launch, argument| launch.arg(argument)).start())
}

fn four_threads_and_a_growing_heap(hooks: Hooks) {
    let Some(fixture) = hammer(&["4", "2000", "grow"]) else { return };
    Hazard::new("4 threads, growing heap", fixture, hooks).loose().run();
}

fn eight_threads_up_to_20_kb(hooks: Hooks) {
    let Some(fixture) = hammer(&["8", "20000"]) else { return };
    Hazard::new("8 threads, up to 20 kB", fixture, hooks).loose().run();
}

fn one_thread_up_to_400_bytes(hooks: Hooks) {
    let Some(fixture) = hammer(&["1", "400"]) else { return };
    Hazard::new("1 thread, up to 400 B", fixture, hooks).loose().run();
}

fn one_thread_up_to_20_kb(hooks: Hooks) {
    let Some(fixture) = hammer(&["1", "20000"]) else { return };
    Hazard::new("1 thread, up to 20 kB", fixture, hooks).loose().run();
}

fn coroutines_on_stacks_from_the_heap(hooks: Hooks) {
    let Some(launch) = Launch::new("coroutines.c") else { return };
    Hazard::new("ucontext coroutines", launch.start(), hooks).loose().warm_up(20).run();
}

heapattach_tests::hazards![
    four_threads_and_a_growing_heap,
    eight_threads_up_to_20_kb,
    one_thread_up_to_400_bytes,
    one_thread_up_to_20_kb,
    coroutines_on_stacks_from_the_heap,
];
