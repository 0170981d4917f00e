//! Processes of an ordinary user that look like a Python interpreter, and whose structures are nonsense:
//! root's heapattach comes to an end within bounds, and the process, which is none of ours to save from
//! itself, is as it was.

use std::time::Duration;

use heapattach_tests::{
    command::{Heapattach, Hooks},
    fixture::Launch,
    trace::Before,
};
use serde_json::Value;

const WINDOW: Duration = Duration::from_millis(400);
const DONE: i32 = 0;
const MOST_MEMORY: u64 = 256 << 20;
/// And for each distinct stack, of which a target has room for a million.
const MOST_A_STACK: u64 = 2 << 10;

/// How it lies, and whether it is one whose frames are walked.
const LIES: [(&str, bool); 8] = [
    ("cycle", true),
    ("lost", true),
    ("nowhere", true),
    ("huge", true),
    ("flood", true),
    ("changing", true),
    ("going", true),
    ("table", false),
];

#[test]
fn forged_interpreters_cost_little_and_lead_nowhere() {
    for (how, is_readable) in LIES {
        let Some(launch) = Launch::new("forged_python.c") else { return };
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
            let named = told["runtimes"][0]["is_named"].as_bool();
            assert_eq!(named, Some(is_readable), "{how}: {}", told["runtimes"][0]);
            assert_eq!((&*report.target, report.left.len()), ("restored", 0), "{how}: {report:?}");
            // Of one whose pages come and go frames are read, and named.
            let is_told = all.is_empty() || how != "going" || outcome.stdout.contains("forged_f");
            assert!(is_told, "{}", outcome.stdout);
            let stacks = told["stacks"]["distinct"].as_u64().expect("a number");
            let most = MOST_MEMORY + stacks * MOST_A_STACK;
            assert!(expense.memory < most, "{how}: {} bytes, {stacks} stacks", expense.memory);
            fixture.advance(10);
            before.assert_equal(&mut fixture, how);
        }
        fixture.finish();
    }
}
