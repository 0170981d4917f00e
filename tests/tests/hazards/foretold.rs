//! What `doctor` predicts is what attach then does; what `status` tells is what is there.

use std::{collections::BTreeSet, time::Duration};

use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    real::{Server, StartError, memcached, redis},
    report::Report,
    skip::skip,
    trace::Before,
};
use serde_json::Value;

/// One function as doctor and attach both name it: function, module, how, how many slots.
type Hook = (String, String, String, u64);

fn doctor(pid: i32, hooks: Hooks) -> Value {
    let args = ["doctor", "-p", &pid.to_string(), "--hooks", hooks.name(), "--json"];
    let outcome = Heapattach::new(args).run().expect(0);
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn foretold(diagnosis: &Value) -> BTreeSet<Hook> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = diagnosis["functions"].as_array().expect("a list of functions");
    let hook = |row: &Value| {
        let via = text(row, "via");
        // A function that is patched has no slots that matter.
        let slots = if via == "slots" { row["slots"].as_u64().expect("a number") } else { 0 };
        (text(row, "function"), text(row, "module"), via, slots)
    };
    rows.iter().map(hook).collect()
}

fn done(report: &Report) -> BTreeSet<Hook> {
    let hooked = report.functions.iter().map(|f| {
        let slots = if f.via == "slots" { f.slots } else { 0 };
        (f.function.clone(), f.module.clone(), f.via.clone(), slots)
    });
    let not = report.not_hooked.iter();
    let not = not.map(|f| (f.function.clone(), f.module.clone(), "not".to_owned(), 0));
    hooked.chain(not).collect()
}

fn assert_foretold(name: &str, pid: i32) {
    for hooks in [Hooks::Auto, Hooks::Slots, Hooks::Entry] {
        let foretold = foretold(&doctor(pid, hooks));
        let attach = Heapattach::attach(pid, Duration::from_millis(20), hooks).run().expect(0);
        let done = done(&attach.report());
        assert!(foretold.len() > 3, "{name}: {foretold:?}");
        assert_eq!(foretold, done, "{name} with {}: doctor on the left", hooks.name());
    }
}

#[test]
fn what_the_doctor_foretells_is_what_attach_does() {
    for file in ["steady.c", "kept_pointers.c", "rust_load.rs", "explicit_calls.c"] {
        let Some(launch) = Launch::new(file) else { continue };
        let mut fixture = launch.start();
        let before = Before::of(&mut fixture);
        doctor(fixture.pid(), Hooks::Auto);
        before.assert_equal(&mut fixture, "after doctor");
        assert_foretold(file, fixture.pid());
        fixture.finish();
    }
}

#[test]
fn what_the_doctor_foretells_of_servers_is_what_attach_does() {
    let servers: [(&str, Result<Server, StartError>); 2] =
        [("redis", redis::start()), ("memcached", memcached::start())];
    for (name, server) in servers {
        match server {
            Ok(server) => assert_foretold(name, server.pid()),
            Err(StartError::Missing(cure)) => skip(&format!("{name} is not installed"), cure),
            Err(StartError::Failed(why)) => panic!("{name} does not start: {why}"),
        }
    }
}

/// What `status --json` says of a process.
fn status(pid: i32) -> Option<Value> {
    let outcome = Heapattach::new(["status", "--json"]).run().expect(0);
    let rows: Vec<Value> = serde_json::from_str(&outcome.stdout).expect("JSON");
    rows.into_iter().find(|row| row["pid"].as_i64() == Some(pid.into()))
}

fn killed_tracer_left(fixture: &mut Fixture) -> bool {
    // The call after which hooks are in, however many they are: half way through.
    let attach = |fault: &str| {
        Heapattach::attach(fixture.pid(), Duration::from_millis(10), Hooks::Auto).fault(fault).run()
    };
    let said = attach("count").expect(0).stderr;
    let calls = said.lines().find_map(|line| line.strip_prefix("heapattach: faults: "));
    let calls: u64 = calls.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a count");
    attach(&format!("kill:{}", calls / 2));
    status(fixture.pid()).is_some_and(|row| row["leftover"] == true)
}

#[test]
fn status_tells_sessions_and_what_killed_ones_left() {
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    let before = Before::of(&mut fixture);
    let pid = fixture.pid();
    assert_eq!(status(pid), None, "of a process nobody touched");
    let attached = Attached::to(&mut fixture, Hooks::Auto);
    let row = status(pid).expect("an attached process is listed");
    assert!(row["session"].is_number() && row["leftover"] == false, "{row}");
    let said = Heapattach::new(["status"]).run().expect(0).stdout;
    assert!(said.contains(&format!("{pid}  attached")), "{said}");
    attached.end();
    let left = poll(PATIENCE, || killed_tracer_left(&mut fixture).then_some(()));
    left.expect("a killed tracing process leaves something that status sees");
    let said = Heapattach::new(["status"]).run().expect(0).stdout;
    assert!(said.contains(&format!("heapattach detach -p {pid}")), "{said}");
    Heapattach::detach(pid).run().expect(0);
    assert_eq!(status(pid), None, "after detach");
    before.assert_equal(&mut fixture, "after status and detach");
    fixture.finish();
}
