//! PHP as an enemy and as a victim: processes of an ordinary user that look like PHP and whose structures are
//! nonsense, and a PHP program whose heapattach is killed while its stacks are read.

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

/// How it lies; frames are walked of each.
const LIES: [&str; 6] = ["cycle", "nowhere", "huge", "flood", "changing", "foreign"];

#[test]
fn forged_engines_cost_little_and_lead_nowhere() {
    for how in LIES {
        let Some(launch) = Launch::new("forged_php.c") else { return };
        let mut fixture = launch.arg(how).start();
        let before = Before::of(&mut fixture).loose();
        for all in [&[][..], &["--all"]] {
            let command = Heapattach::attach(fixture.pid(), WINDOW, Hooks::Auto).arg("--no-record");
            let outcome = all.iter().fold(command, |command, word| command.arg(*word)).run();
            let outcome = outcome.expect(DONE);
            assert!(!outcome.stderr.contains("panicked"), "{how}: {}", outcome.stderr);
            let (report, expense) = (outcome.report(), outcome.report().expense);
            let told: Value = serde_json::from_str(&outcome.stdout).expect("a report");
            println!(
                "{how} {all:?}: {} KiB, {} ms, {}",
                expense.memory >> 10,
                expense.cpu_us / 1000,
                told["runtimes"][0]
            );
            let runtime = &told["runtimes"][0];
            assert_eq!(runtime["is_named"].as_bool(), Some(true), "{how}: {runtime}");
            assert_eq!(runtime["name"].as_str(), Some("PHP 8.2.7"), "{how}: {runtime}");
            assert_eq!((&*report.target, report.left.len()), ("restored", 0), "{how}: {report:?}");
            assert!(expense.memory < MOST_MEMORY, "{how}: {} bytes", expense.memory);
            fixture.advance(10);
            before.assert_equal(&mut fixture, how);
        }
        fixture.finish();
    }
}

#[test]
fn the_undo_is_done_when_the_command_is_killed_while_stacks_of_php_are_read() {
    if !is_there("php") {
        return skip("no PHP here", "apt-get install php-cli");
    }
    let script = fixture("php_load.php");
    let mut fixture = Launch::program(Path::new("php")).arg(script).start();
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
