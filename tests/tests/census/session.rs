//! A census before and after a session: what was allocated meanwhile is the difference, both moments are
//! kept, and the target goes on if a process of ours is killed at the stops.

use std::time::Duration;

use heapattach_test_folder::Folder;
use heapattach_tests::{
    attached::Attached,
    command::{Heapattach, Hooks, Outcome},
    compile::{Source, folder as fixtures},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    json_schema::faults,
    sample::points,
    seed::{Random, seed},
    survey::{Survey, name},
    trace::Before,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const DONE: i32 = 0;
const INTERRUPTED: i32 = 130;
const TARGET: &str = "steady.c";

#[test]
fn what_came_in_the_session_is_told_by_size_and_shown_again() {
    let Some(program) = Source::new("heap_states.c").build() else { return };
    let mut fixture = Launch::program(&program).arg("1").start();
    let folder = Folder::new("census-session");
    let before = Before::of(&mut fixture);
    let recording = folder.0.join("a.heapattach");
    let path = recording.to_str().expect("a path of ours");
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--census").arg("-o").arg(path);
    let attached = Attached::start(command.arg("--all"), &mut fixture);
    fixture.step(1, 1000);
    let running = attached.into_command();
    running.signal(Signal::SIGINT);
    let outcome = running.wait().expect(INTERRUPTED);
    let document: Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    let schema = Heapattach::new(["schema", "report"]).run().expect(DONE).stdout;
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    assert_eq!(faults(&schema, &document), [""; 0]);
    let census = &document["census"];
    let stops = census["stopped_us"].as_array().expect("two stops");
    assert!(stops.len() == 2 && stops.iter().all(|us| us.as_f64() > Some(0.0)), "{census}");
    let rows = census["difference"]["sizes"]["rows"].as_array().expect("rows").iter();
    let blocks: i64 = rows.map(|row| row["change"]["blocks"].as_i64().expect("a number")).sum();
    assert_eq!(blocks, 1000, "{census}");
    before.assert_equal(&mut fixture, "after a session with a census at both its ends");
    fixture.finish();
    let told = Heapattach::new(["report", path]).run().expect(DONE).stdout;
    assert!(told.contains("CENSUS    taken before and after the session"), "{told}");
    assert!(told.contains("Grew most: size "), "{told}");
    let files = census["files"].as_array().expect("files").iter();
    let files: Vec<&str> = files.filter_map(Value::as_str).collect();
    let [first, second] = files[..] else { panic!("two files: {census}") };
    assert!(first.ends_with("a.before.heapattach-moment"), "{first}");
    let difference = Heapattach::new(["diff", first, second, "--json"]).run().expect(DONE).stdout;
    let difference: Value = serde_json::from_str(&difference).expect("JSON");
    assert_eq!(difference["sizes"], census["difference"]["sizes"]);
    // Moments of another session are not told with this one.
    let other = folder.0.join("b.before.heapattach-moment");
    std::fs::copy(first, &other).expect("a copy");
    std::fs::copy(second, folder.0.join("b.after.heapattach-moment")).expect("a copy");
    let copied = folder.0.join("b.heapattach");
    std::fs::copy(fixtures().join("golden/before.heapattach"), &copied).expect("a copy");
    let copied = copied.to_str().expect("a path of ours");
    let told = Heapattach::new(["report", copied]).run().expect(DONE).stdout;
    assert!(!told.contains("CENSUS"), "{told}");
}

#[test]
fn a_text_report_has_the_census_behind_it_and_a_program_that_ends_has_none() {
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let pid = fixture.pid().to_string();
    let words = ["-p", &pid, "--census", "--duration", "300ms", "--no-record"];
    let told = Heapattach::new(words).run().expect(DONE).stdout;
    assert!(told.contains("CENSUS    taken before and after"), "{told}");
    assert!(told.contains("VERDICT   Resident memory "), "{told}");
    let before = Before::of(&mut fixture);
    before.assert_equal(&mut fixture, "after a session with a census");
    fixture.finish();
}

fn session(fixture: &Fixture, fault: &str) -> Outcome {
    Heapattach::attach(fixture.pid(), Duration::from_millis(50), Hooks::Auto)
        .arg("--census")
        .fault(fault)
        .run()
}

/// How many calls two looks have.
fn calls() -> Option<Vec<String>> {
    let mut fixture = Launch::new(TARGET)?.start();
    fixture.pause();
    let pid = fixture.pid().to_string();
    let outcome = Heapattach::new(["heap", "-p", &pid, "--json"]).fault("trace").run();
    fixture.resume();
    fixture.finish();
    let once = outcome.calls();
    assert!(once.iter().any(|call| call == "clone"), "{once:?}: {}", outcome.stderr);
    Some([once.clone(), once].concat())
}

#[test]
fn the_target_lives_when_any_process_of_the_session_is_killed_at_a_census() {
    let Some(calls) = calls() else { return };
    let mut random = Random::new(seed());
    let mut chosen = || points(calls.len() as u64, 24, &mut random);
    let survey = Survey::of(TARGET, chosen(), |fixture, _, n| {
        let _ = session(fixture, &format!("kill:{n}"));
        fixture.advance(1);
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    });
    let Some(survey) = survey else { return };
    println!("killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("who takes the census is killed", |n| name(&calls, n));
    let survey = Survey::of(TARGET, chosen(), |fixture, before, n| {
        let _ = session(fixture, &format!("killfront:{n}"));
        poll(PATIENCE, || before.trace(fixture).is_empty().then_some(()));
    });
    let Some(survey) = survey else { return };
    survey.assert_all_well("the command is killed", |n| name(&calls, n));
}
