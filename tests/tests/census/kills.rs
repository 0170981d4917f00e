//! A look at a heap whose command, or whose tracing process, is killed at its calls: the target goes on as it
//! was, and what is left can be cleaned.

use heapattach_tests::{
    command::{Heapattach, Outcome},
    deadline::{PATIENCE, poll},
    fixture::{Fixture, Launch},
    page::Word,
    sample::points,
    seed::{Random, seed},
    survey::{Survey, name},
};

const DONE: i32 = 0;
const TARGET: &str = "steady.c";

fn look(fixture: &Fixture, options: &[&str], fault: &str) -> Outcome {
    let pid = fixture.pid().to_string();
    Heapattach::new([&["heap", "-p", &pid, "--json"], options].concat()).fault(fault).run()
}

/// The calls of an undisturbed look, by what they are.
fn calls(options: &[&str]) -> Option<Vec<String>> {
    let mut fixture = Launch::new(TARGET)?.start();
    fixture.pause();
    let outcome = look(&fixture, options, "trace");
    fixture.resume();
    fixture.finish();
    let calls = outcome.calls();
    let wanted = if options.contains(&"early") { "userfaultfd" } else { "clone" };
    assert!(calls.iter().any(|call| call == wanted), "{calls:?}: {}", outcome.stderr);
    Some(calls)
}

fn chosen(calls: &[String]) -> impl Iterator<Item = u64> {
    points(calls.len() as u64, 40, &mut Random::new(seed()))
}

#[test]
fn the_look_is_undone_when_its_command_is_killed() {
    let Some(calls) = calls(&[]) else { return };
    let survey = Survey::of(TARGET, chosen(&calls), |fixture, before, n| {
        look(fixture, &[], &format!("killfront:{n}"));
        poll(PATIENCE, || before.trace(fixture).is_empty().then_some(()));
    });
    let Some(survey) = survey else { return };
    println!("command killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("the command is killed", |n| name(&calls, n));
}

#[test]
fn the_target_lives_when_who_looks_at_it_is_killed_and_can_be_cleaned() {
    killed_and_cleaned(&[]);
}

#[test]
fn the_same_where_it_is_watched_what_is_written() {
    killed_and_cleaned(&["--cold", "1ms"]);
}

#[test]
fn the_same_where_memory_is_copied_early() {
    killed_and_cleaned(&["--snapshot", "early"]);
}

fn killed_and_cleaned(options: &[&str]) {
    let Some(calls) = calls(options) else { return };
    let survey = Survey::of(TARGET, chosen(&calls), |fixture, _, n| {
        fixture.pause();
        let _ = look(fixture, options, &format!("kill:{n}"));
        fixture.page().set(Word::Pause, 0);
        fixture.advance(1);
        Heapattach::detach(fixture.pid()).run().expect(DONE);
    });
    let Some(survey) = survey else { return };
    println!("tracer killed at {} of {} calls", survey.tried(), calls.len());
    survey.assert_all_well("the tracer is killed", |n| name(&calls, n));
}

#[test]
fn a_call_that_fails_leaves_nothing_and_the_walk_is_made_in_the_stop() {
    let Some(calls) = calls(&[]) else { return };
    let clone = (1..).zip(&calls).find(|(_, call)| *call == "clone").map(|(number, _)| number);
    let Some(mut fixture) = Launch::new(TARGET).map(Launch::start) else { return };
    let before = heapattach_tests::trace::Before::of(&mut fixture);
    fixture.pause();
    let outcome = look(&fixture, &[], &format!("fail:{}", clone.expect("a clone")));
    fixture.resume();
    assert!(outcome.stdout.contains("\"method\": \"stop\""), "{outcome:?}");
    before.assert_equal(&mut fixture, "after a clone that failed");
    fixture.finish();
}
