//! Attaching to processes that may do less than others, or see other files.

use std::fs;

use heapattach_tests::{
    command::Hooks, compile::Source, fixture::Launch, hazard::Hazard, skip::skip,
};

fn hazard(name: &str, launch: Launch, hooks: Hooks) -> Option<Hazard> {
    let Some(fixture) = launch.start_if_allowed() else {
        skip(&format!("{name}: not allowed on this machine"), "run as root, kernel 6.3 or later");
        return None;
    };
    Some(Hazard::new(name, fixture, hooks).warm_up(1000))
}

fn confined(kind: &str, hooks: Hooks) {
    let Some(launch) = Launch::new("confined.c") else { return };
    if let Some(hazard) = hazard(kind, launch.arg(kind), hooks) {
        hazard.run();
    }
}

fn seccomp_refusing_mmap(hooks: Hooks) {
    confined("seccomp-errno", hooks);
}

fn seccomp_killing_at_mmap(hooks: Hooks) {
    confined("seccomp-kill", hooks);
}

fn seccomp_allowing_little(hooks: Hooks) {
    confined("seccomp-list", hooks);
}

fn no_new_executable_memory(hooks: Hooks) {
    confined("mdwe", hooks);
}

fn another_user(hooks: Hooks) {
    confined("user", hooks);
}

fn a_container(hooks: Hooks) {
    confined("container", hooks);
}

fn a_hardened_service(hooks: Hooks) {
    confined("systemd", hooks);
}

fn other_mounts_and_pids(hooks: Hooks) {
    let Some(launch) = Launch::new("confined.c") else { return };
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    // Outside the target's mounts this path holds something that is not a module at all.
    let name = format!("heapattach-elsewhere-{}-{}.so", std::process::id(), hooks.name());
    let place = std::env::temp_dir().join(name);
    fs::write(&place, "not what the target sees").expect("a temporary file");
    let launch = launch.arg("namespaces").arg(plugin).arg(&place);
    let hazard = hazard("other mount and pid namespace", launch, hooks);
    let summary = hazard.map(|hazard| hazard.recording_all().run());
    let _ = fs::remove_file(&place);
    let Some(summary) = summary else { return };
    let place = place.to_string_lossy();
    let from_plugin = summary.last.calls_from("malloc", &place);
    assert!(from_plugin > 0, "no call of the plugin counted: {:?}", summary.last.functions);
}

heapattach_tests::hazards![
    seccomp_refusing_mmap,
    seccomp_killing_at_mmap,
    seccomp_allowing_little,
    no_new_executable_memory,
    another_user,
    a_container,
    a_hardened_service,
    other_mounts_and_pids,
];
