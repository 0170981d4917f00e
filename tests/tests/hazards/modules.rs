//! Attaching while modules come and go.

use heapattach_tests::{command::Hooks, compile::Source, fixture::Launch, hazard::Hazard};

/// Real libraries, one of which is on every machine.
const LIBRARIES: [&str; 4] = ["libz.so.1", "libresolv.so.2", "libgcc_s.so.1", "libm.so.6"];

fn modules_loaded_and_unloaded_in_a_loop(hooks: Hooks) {
    let Some(launch) = Launch::new("dlopen_loop.c") else { return };
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    let launch = LIBRARIES.iter().fold(launch.arg(plugin), |launch, name| launch.arg(name));
    Hazard::new("dlopen/dlclose loop", launch.start(), hooks).loose().warm_up(20).run();
}

heapattach_tests::hazards![modules_loaded_and_unloaded_in_a_loop];
