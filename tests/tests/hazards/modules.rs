//! Attaching while modules come and go.

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::{Heapattach, Hooks},
    compile::Source,
    deadline::{PATIENCE, wait_until},
    fixture::Launch,
    hazard::Hazard,
    hold::Hold,
    skip::skip,
    trace::Before,
};
use nix::sys::signal::Signal;

/// Real libraries, one of which is on every machine.
const LIBRARIES: [&str; 4] = ["libz.so.1", "libresolv.so.2", "libgcc_s.so.1", "libm.so.6"];

/// An interpreter in a library.
const LUA: &str = "liblua5.4.so.0";

fn modules_loaded_and_unloaded_in_a_loop(hooks: Hooks) {
    let Some(launch) = Launch::new("dlopen_loop.c") else { return };
    let Some(plugin) = Source::new("loop_plugin.c").build() else { return };
    let launch = LIBRARIES.iter().fold(launch.arg(plugin), |launch, name| launch.arg(name));
    Hazard::new("dlopen/dlclose loop", launch.start(), hooks).loose().warm_up(20).run();
}

/// What is said of an interpreter in a program that holds Lua, which goes between the look at the program
/// and its stop, or stays.
fn of_an_interpreter(goes: bool) -> Option<String> {
    let mut fixture = Launch::new("library_goes.c")?.arg(LUA).start_if_allowed()?;
    let hold = Hold::at(&["stop"]);
    let pid = fixture.pid().to_string();
    let command = Heapattach::new(["-p", &pid, "--duration", "1h", "--no-record"]);
    let mut command = hold.start(command);
    hold.wait(&mut command, "stop");
    if goes {
        assert_eq!(fixture.step(1, 0), 1);
    }
    let before = Before::of(&mut fixture);
    hold.let_go("stop");
    wait_until("it to attach", PATIENCE, || Attached::is_told(&command.talk()));
    command.signal(Signal::SIGINT);
    let outcome = command.wait().expect(INTERRUPTED);
    before.assert_equal(&mut fixture, "after the session");
    fixture.finish();
    Some(outcome.stdout)
}

#[test]
fn an_interpreter_that_goes_before_the_stop_is_not_looked_at() {
    let (Some(stays), Some(goes)) = (of_an_interpreter(false), of_an_interpreter(true)) else {
        return skip(
            &format!("there is no {LUA}, or no C compiler"),
            "install liblua5.4-0 and gcc",
        );
    };
    assert!(stays.contains("its functions are named"), "{stays}");
    assert!(!goes.contains("its functions are named"), "{goes}");
}

heapattach_tests::hazards![modules_loaded_and_unloaded_in_a_loop];
