//! PHP and Ruby as enemies and as victims: processes of an ordinary user that look like them and whose structures
//! are nonsense, and programs in them whose heapattach is killed while their stacks are read.

use std::{path::Path, thread, time::Duration};

use heapattach_tests::{
    command::{Heapattach, Hooks},
    compile::{fixture, is_there},
    fixture::Launch,
    sample::is_soak,
    seed::{Random, seed},
    skip::skip,
    trace::Before,
};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::kills::assert_undone;

const WINDOW: Duration = Duration::from_millis(400);
const DONE: i32 = 0;
const MOST_MEMORY: u64 = 256 << 20;

/// Programs that look like an interpreter, what they are taken for, and how they lie; frames are walked of each.
const PHP: (&str, &str, &[&str]) =
    ("forged_php.c", "PHP 8.2.7", &["cycle", "nowhere", "huge", "flood", "changing", "foreign"]);
const RUBY: (&str, &str, &[&str]) = (
    "forged_ruby.c",
    "Ruby 3.1.2",
    &["endless", "nowhere", "huge", "flood", "changing", "foreign"],
);

fn assert_harmless((file, name, lies): (&str, &str, &[&str])) {
    for how in lies {
        let Some(launch) = Launch::new(file) else { return };
        let mut fixture = launch.arg(how).start();
        let before = Before::of(&mut fixture).loose();
        for all in [&[][..], &["--all"]] {
            let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
            let outcome = all.iter().fold(command, |command, word| command.arg(*word)).run();
            let outcome = outcome.expect(DONE);
            assert!(!outcome.stderr.contains("panicked"), "{how}: {}", outcome.stderr);
            let (report, expense) = (outcome.report(), outcome.report().expense);
            let told: Value = serde_json::from_str(&outcome.stdout).expect("a report");
            let runtime = &told["runtimes"][0];
            println!(
                "{name} {how} {all:?}: {} KiB, {} ms",
                expense.memory >> 10,
                expense.cpu_us / 1000
            );
            assert_eq!(runtime["is_named"].as_bool(), Some(true), "{how}: {runtime}");
            assert_eq!(runtime["name"].as_str(), Some(name), "{how}: {runtime}");
            assert_eq!((&*report.target, report.left.len()), ("restored", 0), "{how}: {report:?}");
            assert!(expense.memory < MOST_MEMORY, "{how}: {} bytes", expense.memory);
            fixture.advance(10);
            before.assert_equal(&mut fixture, how);
        }
        fixture.finish();
    }
}

#[test]
fn forged_engines_of_php_cost_little_and_lead_nowhere() {
    assert_harmless(PHP);
}

#[test]
fn forged_machines_of_ruby_cost_little_and_lead_nowhere() {
    assert_harmless(RUBY);
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_php_are_read() {
    kill_while_stacks_are_read("php", "php_load.php", "apt-get install php-cli");
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_ruby_are_read() {
    kill_while_stacks_are_read("ruby", "ruby_load.rb", "apt-get install ruby");
}

fn kill_while_stacks_are_read(interpreter: &str, script: &str, cure: &str) {
    if !is_there(interpreter) {
        return skip(&format!("no {interpreter} here"), cure);
    }
    let mut fixture = Launch::program(Path::new(interpreter)).arg(fixture(script)).start();
    fixture.advance(3);
    let (seed, before) = (seed(), Before::of(&mut fixture).loose());
    let mut random = Random::new(seed);
    let times = if is_soak() { 300 } else { 20 };
    for turn in 0..times {
        // The first ones hit the attach, later ones the session and the detach.
        let delay = Duration::from_micros(random.between(0, 400_000));
        let window = Duration::from_millis(random.between(1, 200));
        let command = Heapattach::attach(fixture.pid(), window, Hooks::Auto).arg("--no-record");
        let command = if turn % 2 == 0 { command.arg("--all") } else { command }.start();
        thread::sleep(delay);
        command.signal(Signal::SIGKILL);
        command.wait();
        let when = format!("after a kill {delay:?} from the start ({turn}), seed {seed}");
        assert_undone(&mut fixture, &before, &when);
        fixture.advance(1);
    }
    println!("command killed at {times} random times, undone each time, seed {seed}");
    fixture.finish();
}
