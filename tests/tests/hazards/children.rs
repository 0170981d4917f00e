//! Attaching to processes that make children.

use heapattach_tests::{
    command::Hooks,
    fixture::Launch,
    hazard::{Calls, Hazard},
};

fn fork_and_exec_storm(hooks: Hooks) {
    let Some(launch) = Launch::new("fork_storm.c") else { return };
    Hazard::new("fork/exec storm", launch.start(), hooks).loose().warm_up(10).run();
}

fn master_of_a_prefork_server(hooks: Hooks) {
    let Some(launch) = Launch::new("prefork.c") else { return };
    let fixture = launch.arg("master").start();
    let hazard = Hazard::new("prefork server, master", fixture, hooks).loose().warm_up(20);
    hazard.calls(Calls::Sometimes).run();
}

fn worker_of_a_prefork_server(hooks: Hooks) {
    let Some(launch) = Launch::new("prefork.c") else { return };
    let fixture = launch.arg("worker").start();
    let hazard = Hazard::new("prefork server, worker", fixture, hooks).loose().warm_up(20);
    hazard.calls(Calls::Sometimes).run();
}

fn parent_in_vfork(hooks: Hooks) {
    let Some(launch) = Launch::new("vfork_parent.c") else { return };
    Hazard::new("vfork parent", launch.start(), hooks).loose().warm_up(10).run();
}

heapattach_tests::hazards![
    fork_and_exec_storm,
    master_of_a_prefork_server,
    worker_of_a_prefork_server,
    parent_in_vfork,
];
